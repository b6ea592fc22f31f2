// Named random streams: some with the same numbers on all ranks, others different on each rank.
//
//   const RngTracker tracker = model_parallel_seed(seed, mesh.group("tp"));
//   Tensor h = dropout(x, 0.1);                  // x whole on all ranks: all have the same mask
//   {
//     const auto local = tracker.use("local");
//     part = dropout(part, 0.1);                 // a different mask on each rank
//   }
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "../tensor/generator.hpp"
#include "../tensor/shared.hpp"
#include "group.hpp"

namespace weft::distributed {

/// A value; copies share the streams, which belong to one rank's thread.
class WEFT_API RngTracker {
 public:
  using State = std::map<std::string, GeneratorState>;
  class Guard;

  /// `default_seed` is the seed of the default generators; no stream may use it.
  explicit RngTracker(std::optional<uint64_t> default_seed = {});

  /// Adds a stream that starts as manual_seed(seed) would; 0 is a valid seed. Raises ValueError if a stream with this
  /// name or this seed exists, since equal seeds draw the same numbers.
  void add(const std::string& name, uint64_t seed, Location where = {}) const;
  /// While the guard exists, random numbers that this thread draws on `device` from the default generator come from the
  /// stream, which continues from its last state; the guard then restores the default generator. Guards are destroyed
  /// newest first. Numbers drawn in a checkpointed function (hooks/checkpoint.hpp) are the same when backward
  /// recomputes it. Raises KeyError for an unknown stream, and ValueError if a guard of another device uses the stream,
  /// or if another guard is active on a device other than the CPU.
  [[nodiscard]] Guard use(const std::string& name, Device device = {}, Location where = {}) const;

  /// State of every stream.
  State state() const;
  /// Raises KeyError, and changes nothing, unless `state` names exactly the streams that were added.
  void set_state(const State& state, Location where = {}) const;
  /// For files of training states (io/training_state.hpp). The generators live as long as the tracker.
  std::map<std::string, Generator*> generators() const;

 private:
  struct Streams;
  Shared<Streams> streams_;
};

class WEFT_API RngTracker::Guard {
 public:
  ~Guard();
  Guard(const Guard&) = delete;

 private:
  friend class RngTracker;
  struct Swap;
  explicit Guard(std::unique_ptr<Swap> swap);
  std::unique_ptr<Swap> swap_;
};

/// Seeds the default generators with `seed`, the same on every rank, and returns a tracker with the stream "local". Its
/// seed is seed + 1 + t · stages + p on rank t of the tensor-parallel group and stage p of the pipeline. So only
/// data-parallel replicas draw the same numbers from it.
WEFT_API RngTracker model_parallel_seed(uint64_t seed, const Group& tensor_parallel = world(),
                                        const std::optional<Group>& pipeline = {}, Location where = {});

}  // namespace weft::distributed
