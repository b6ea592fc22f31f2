// Sharded parameters that are gathered while a module computes with them (ZeRO stage 3).
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

/// Parameters of one dtype and device, and this rank's shard of their concatenated elements: 1-d, equally long on every
/// rank, padded with zeros on the last ranks.
struct FlatParameters {
  std::vector<Tensor> members;
  Tensor own;
  Group group;
};
/// This rank's shard of parameters that all ranks have.
FlatParameters flat_parameters(std::vector<Tensor> members, const Group& group);

/// Parameters that are gathered before a module's forward and before its backward, and freed after each. Parameters
/// that are not gathered read as NaN, and backward refuses them. Ranks call the modules in the same order; while a
/// module computes, the unit that followed it last time is prefetched.
class ParameterUnits {
 public:
  ParameterUnits() = default;
  ParameterUnits(const ParameterUnits&) = delete;

  /// Frees the members' memory. Members must be leaves whose storage can be exchanged, each in one unit.
  void add(const nn::Module& module, std::vector<FlatParameters> flats, Location where);

  /// This rank's elements of a parameter, from `begin` on, 1-d.
  struct Part {
    Tensor parameter, elements;
    int64_t begin;
  };
  std::vector<Part> parts() const;
  std::vector<Tensor> members() const;

  /// Must be called after the shards have changed: frees gathered and prefetched parameters.
  void renew();
  /// Gathers all parameters until `unpin`, which copies writes into this rank's shards and returns the changed shards.
  void pin();
  std::vector<Tensor> unpin();

 private:
  enum class Phase : uint8_t { forward, backward };
  struct Flat {
    FlatParameters parameters;
    int64_t count;
    const std::vector<Tensor>& members() const { return parameters.members; }
    /// Range of this rank's elements among all.
    std::pair<int64_t, int64_t> own_range() const;
    /// While gathered: all elements, of which the members are views. `others` then holds the placeholders of the
    /// members.
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
  /// By phase and unit, the unit that followed it.
  std::map<std::pair<Phase, size_t>, size_t> follower_;
  std::optional<std::pair<Phase, size_t>> last_;
};

}  // namespace weft::distributed::detail
