// Sharded states, saved by all ranks together (see io/sharded_state.hpp for the file format).
//
//   io::ShardedState state;
//   state.emplace("w", shard_of(w));                       // a DTensor
//   state.merge(optimizer.sharded_state(names));           // of a ShardedOptimizer
//   const int64_t id = save_state_dict(state, "checkpoint", group);
//
// Any number of ranks, with any shards, can load it by io::load_state_dict, each rank independently.
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

/// This rank's shard; shares its memory. Raises ValueError if the tensor is partial, and on ranks outside of its mesh.
WEFT_API io::ShardedTensor shard_of(const DTensor& x, Location where = {});

/// Saves the shards of all ranks of the group, each rank in its own file, and returns the id, which is the same on all
/// ranks. Called by all of them. Raises the errors of io::save_state_dict on every rank. If one rank cannot write, it
/// raises its error, and the others raise an IoError that names it; states with other ids are unchanged.
WEFT_API int64_t save_state_dict(const io::ShardedState& state, const io::Path& folder, const Group& group = world(),
                                 const io::SaveStateDictOptions& options = {}, Location where = {});

/// Saves such states in the background: `save` returns once each rank has copied its data to host memory; the tensors
/// may then be changed. One save runs at a time; the next one waits for it. Writers communicate over the saver's own
/// group, so that they do not block the program's collectives.
class WEFT_API BackgroundSaver {
 public:
  /// Called by all ranks of the group, as is `save`.
  explicit BackgroundSaver(const Group& group = world(), Location where = {});
  /// Waits; an error that no call has raised becomes a warning.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;

  /// Returns the id of the state, which becomes visible when it is complete. Raises, on every rank, the error of the
  /// previous save, or an error that distributed::save_state_dict raises before it writes.
  int64_t save(const io::ShardedState& state, const io::Path& folder, const io::SaveStateDictOptions& options = {},
               Location where = {});
  /// Saves a whole run as save_training_state does (training_state.hpp). Returns its folder, which appears when it is
  /// complete.
  io::Path save(const ShardedRun& run, const io::RunState& state, const io::Path& folder,
                const io::SaveStateOptions& options, Location where = {});
  /// Waits until all ranks have saved. Raises the error of the save on every rank.
  void wait();

 private:
  struct Impl;
  weft::detail::Pimpl<Impl> impl_;
};

}  // namespace weft::distributed
