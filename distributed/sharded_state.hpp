// States that lie in parts on ranks, saved by all of them together (io/sharded_state.hpp has the files).
//
//   io::ShardedState state;
//   state.emplace("w", shard_of(w));                       // a DTensor
//   state.merge(optimizer.sharded_state(names));           // of a ShardedOptimizer
//   const int64_t id = save_state_dict(state, "checkpoint", group);
//
// Any number of ranks loads it by io::load_state_dict, whatever their parts are, each on its own.
#pragma once

#include "../io/sharded_state.hpp"
#include "../tensor/pimpl.hpp"
#include "spmd/dtensor.hpp"

namespace weft::io {
struct RunState;
struct SaveStateOptions;
}  // namespace weft::io

namespace weft::distributed {

struct ShardedRun;

/// This rank's part; it shares the memory. ValueError where the tensor is partial, and on ranks outside of its mesh.
WEFT_API io::ShardedTensor shard_of(const DTensor& x, Location where = {});

/// Saves what the ranks of the group have, each its own file, and returns the id, which is the same on all. Called by
/// all of them. Errors as io::save_state_dict, where the fault is found on every rank; where one rank cannot write, it
/// raises its error and the others an IoError that names it, and states of other ids are as they were.
WEFT_API int64_t save_state_dict(const io::ShardedState& state, const io::Path& folder, const Group& group = world(),
                                 const io::SaveStateDictOptions& options = {}, Location where = {});

/// Saves such states in the background: `save` returns once each rank has copied what it is to write to the host's
/// memory, and the tensors may change at once. One save runs at a time; the next waits for it. Ranks that write speak
/// through a group of the saver's own, so that the program's collectives go on meanwhile.
class WEFT_API BackgroundSaver {
 public:
  /// Called by all ranks of the group, as `save` is.
  explicit BackgroundSaver(const Group& group = world(), Location where = {});
  /// Waits; what nobody was told of becomes a warning.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;

  /// The id, under which the state appears when it is complete. Raises, on every rank, what the save before this one
  /// failed with, or what distributed::save_state_dict raises before it writes.
  int64_t save(const io::ShardedState& state, const io::Path& folder, const io::SaveStateDictOptions& options = {},
               Location where = {});
  /// The same of a whole run, as save_training_state (training_state.hpp): its folder, which is there when it is
  /// complete.
  io::Path save(const ShardedRun& run, const io::RunState& state, const io::Path& folder,
                const io::SaveStateOptions& options, Location where = {});
  /// Waits until all ranks have saved; raises, on every rank, what the save failed with.
  void wait();

 private:
  struct Impl;
  weft::detail::Pimpl<Impl> impl_;
};

}  // namespace weft::distributed
