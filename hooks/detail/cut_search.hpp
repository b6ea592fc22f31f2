// Where the way from parameters to the loss ends, found by what kernels read and write. Not public.
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

/// In one step: what is computed from a source is known by its memory, and with each piece whether the graph may lead
/// back to the source, or which call cut it off. Of the CPU's memory alone.
class CutSearch {
 public:
  static constexpr size_t most_parameters = 62;

  /// False where there is no room for more.
  bool add_parameter(size_t which, const Tensor& parameter);
  /// What the model returned while nothing was recorded.
  void add_unrecorded_output(const Tensor& output);

  void after(const KernelCall& call, bool program_records);
  /// `result` is x outside of the graph, undefined where its number was read.
  void left_graph(const Tensor& x, const Tensor& result, const CallPlace& call);

  bool has_output() const { return has_output_; }
  /// For each parameter the cut behind which the loss goes on: into lines that backward `passed`.
  std::vector<Cut> cuts(const std::set<std::string>& passed) const;
  bool unrecorded_output_was_used(const std::set<std::string>& passed) const;

 private:
  using Sources = uint64_t;
  static constexpr size_t output_source = 63;
  /// Memory with what it was computed from: sources that the graph may lead to, and the cuts behind which others lie;
  /// and the cuts whose detached tensors are this memory, too.
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
    /// What has no history any more, kept so that it shows whether the program still has it.
    std::vector<Tensor> detached = {};
    /// The lines that read what came behind it.
    std::set<std::string> readers = {};
  };
  size_t found(Cut::Kind kind, const char* op, Location where, Sources sources);
  /// Of all regions that the view touches.
  Region at(const View& view) const;
  void put(const View& view, const Region& region);
  void split(const char* at);
  /// Whether the program still has a tensor that the cut detached.
  bool is_held(size_t cut) const;
  std::optional<size_t> best(Sources parameter, const std::set<std::string>& passed) const;

  std::vector<size_t> parameters_;
  Sources read_ = 0;
  bool has_output_ = false;
  /// By where they begin; none overlap.
  std::map<const char*, Region> regions_;
  std::vector<Found> found_;
};

/// "net.cpp:12"
std::string short_place(Location where);

}  // namespace weft::detail
