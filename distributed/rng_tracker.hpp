// Named streams of random numbers, for what ranks draw alike and what each draws for itself.
//
//   const RngTracker tracker = model_parallel_seed(seed, mesh.group("tp"));
//   Tensor h = dropout(x, 0.1);                  // x whole on all ranks: all have the same mask
//   {
//     const auto local = tracker.use("local");
//     part = dropout(part, 0.1);                 // each rank's part has a mask of its own
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

/// A value; copies are the same streams, which belong to one rank's thread.
class WEFT_API RngTracker {
 public:
  using State = std::map<std::string, GeneratorState>;
  class Guard;

  /// `default_seed` is that of the default generators, which no stream may have.
  explicit RngTracker(std::optional<uint64_t> default_seed = {});

  /// A stream that begins as manual_seed(seed) would; 0 is a seed as any other. ValueError where a stream has this name
  /// or this seed already: it would draw the same numbers.
  void add(const std::string& name, uint64_t seed, Location where = {}) const;
  /// While the guard lives, what this thread draws on `device` from the default generator comes from the stream, which
  /// goes on where it was left; then the default generator is as it was before. Guards are destroyed newest first. What
  /// a checkpointed function (hooks/checkpoint.hpp) draws so is drawn again in backward. KeyError for a name that was
  /// not added; ValueError for a stream that a guard of another device, or another guard of a device beside the CPU,
  /// uses now.
  [[nodiscard]] Guard use(const std::string& name, Device device = {}, Location where = {}) const;

  /// Where every stream stands.
  State state() const;
  /// KeyError, and nothing is changed, unless it names the streams that were added.
  void set_state(const State& state, Location where = {}) const;
  /// For files of training states (io/training_state.hpp). They live as long as the tracker.
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

/// Seeds the default generators with `seed`, alike on every rank, and gives a tracker with the stream "local", of seed
/// seed + 1 + t · stages + p on rank t of the tensor-parallel group and stage p of the pipeline: each rank draws other
/// numbers from it, but for those that differ in their data alone.
WEFT_API RngTracker model_parallel_seed(uint64_t seed, const Group& tensor_parallel = world(),
                                        const std::optional<Group>& pipeline = {}, Location where = {});

}  // namespace weft::distributed
