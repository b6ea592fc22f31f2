// Parameters of which each rank keeps a part, and that are whole while a module computes with them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "../../autograd/hooks.hpp"
#include "../../nn/module.hpp"
#include "../group.hpp"
#include "../work.hpp"

namespace weft::distributed::detail {

/// Parameters of one dtype and device, and this rank's part of their elements, one after the other: 1-d, as long on
/// every rank, with zeros behind the last rank's.
struct FlatParameters {
  std::vector<Tensor> members;
  Tensor own;
  Group group;
};
/// This rank's part of what all ranks have.
FlatParameters flat_parameters(std::vector<Tensor> members, const Group& group);

/// What is gathered before a module's forward and before its backward, and dropped behind each. Parameters that are not
/// whole read as NaN, and backward does not take them. Ranks call the modules in the same order; the unit that came
/// next the last time is on its way while one computes.
class ParameterUnits {
 public:
  ParameterUnits() = default;
  ParameterUnits(const ParameterUnits&) = delete;

  /// Drops the members' memory. They are movable, each in one unit.
  void add(const nn::Module& module, std::vector<FlatParameters> flats, Location where);

  /// What this rank keeps of a parameter: its elements from `begin` on, 1-d.
  struct Part {
    Tensor parameter, elements;
    int64_t begin;
  };
  std::vector<Part> parts() const;
  std::vector<Tensor> members() const;

  /// Own parts have other values: whatever is whole, or on its way, is dropped.
  void renew();
  /// Makes all whole until `unpin`, which returns the own parts of those that were written meanwhile, brought up to
  /// date.
  void pin();
  std::vector<Tensor> unpin();

 private:
  enum class Phase : uint8_t { forward, backward };
  struct Flat {
    FlatParameters parameters;
    int64_t count;
    const std::vector<Tensor>& members() const { return parameters.members; }
    /// Where this rank's elements are among all.
    std::pair<int64_t, int64_t> own_range() const;
    /// While whole: all elements, of which members are views; their heads then have what stands for dropped memory.
    Tensor whole;
    std::vector<Tensor> others;
  };
  struct Unit {
    std::vector<Flat> flats;
    std::vector<Work> coming;
    bool is_whole = false;
    size_t trained = 0, arrived = 0;
  };

  void make_whole(size_t unit, Phase phase);
  void fetch(Unit& unit);
  void take(Unit& unit);
  void drop(Unit& unit);
  void gather_all();
  void arrive(Unit& unit);
  void foresee(size_t unit, Phase phase);

  std::vector<Unit> units_;
  std::vector<ScopedHook> hooks_;
  uint32_t version_ = 1;
  int pins_ = 0;
  /// By phase and unit, the unit that came behind it.
  std::map<std::pair<Phase, size_t>, size_t> follower_;
  std::optional<std::pair<Phase, size_t>> last_;
};

}  // namespace weft::distributed::detail
