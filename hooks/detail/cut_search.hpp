// Finds where the path from parameters to the loss is cut, from the reads and writes of kernels. Not public.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../../backends/watch/observe.hpp"
#include "../../tensor/tensor.hpp"
#include "../program_facts.hpp"

namespace weft::detail {

/// Searches one step. Each memory region computed from a source records whether the graph still leads back to the
/// source, or which call cut it off. Only for CPU memory.
class CutSearch {
 public:
  static constexpr size_t most_parameters = 62;

  /// Returns false if there are too many parameters.
  bool add_parameter(size_t index, const Tensor& parameter);
  void add_unrecorded_output(const Tensor& output);

  void after(const KernelCall& call, bool program_records);
  /// `result` is x outside of the graph; undefined if the value of x was read.
  void on_detach(const Tensor& x, const Tensor& result, const CallPlace& call);

  bool has_output() const { return has_output_; }
  /// Returns for each parameter the cut after which the path continues to the loss, through lines that backward
  /// `passed`.
  std::vector<Cut> cuts(const std::set<std::string>& passed) const;
  bool unrecorded_output_was_used(const std::set<std::string>& passed) const;

 private:
  using Sources = uint64_t;
  static constexpr size_t output_source = 63;
  /// A memory region and its sources: `live` sources, to which the graph may still lead; the cuts that separate it
  /// from other sources (`behind`); and the cuts with detached tensors in this memory.
  struct Region {
    const char* end = nullptr;
    Sources live = 0;
    std::vector<size_t> behind = {}, detached_by = {};
    void add(const Region& other);
  };
  struct Found {
    Cut::Kind kind;
    std::string op, place;
    Sources sources = 0;
    /// Tensors without history, kept to check whether the program still holds them.
    std::vector<Tensor> detached = {};
    /// The lines that read results computed after the cut.
    std::set<std::string> readers = {};
  };
  size_t found(Cut::Kind kind, const char* op, Location where, Sources sources);
  /// The union of all regions that the view touches.
  Region at(const View& view) const;
  void put(const View& view, const Region& region);
  void split(const char* at);
  /// Whether the program still holds a tensor that the cut detached.
  bool is_held(size_t cut) const;
  std::optional<size_t> best(Sources parameter, const std::set<std::string>& passed) const;

  std::vector<size_t> parameters_;
  Sources read_ = 0;
  bool has_output_ = false;
  /// By start address; regions do not overlap.
  std::map<const char*, Region> regions_;
  std::vector<Found> found_;
};

/// "net.cpp:12"
std::string short_place(Location where);

}  // namespace weft::detail
