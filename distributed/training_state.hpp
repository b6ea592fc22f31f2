// Training states of several ranks, from which the same or another number of ranks can resume.
//
//   ShardedRun run{.model = io::unsharded(net.state_dict()),          // or shards, by shard_of and sharded_state
//                  .parameters = net.named_parameters(),
//                  .sharded_optimizer = &optimizer};
//   save_training_state("runs/a", run, {.step = step}, group, {.keep_last = 3});
//   const io::RunState state = load_training_state("runs/a", run, group);
//
// runs/a/step-00001000/ then contains the folders model and optimizer, each a sharded state (sharded_state.hpp) with
// all ranks' files; tensors, if the RunState has any; rng-RANK.json of each rank; trainer.json; NAME.json for each
// document; and COMPLETE, with the size of every file. The folder is renamed to its final name after all ranks have
// written, so that killing a rank leaves older states intact. io::merge_sharded converts model to one file.
#pragma once

#include "../io/training_state.hpp"
#include "sharded_optimizer.hpp"
#include "sharded_state.hpp"

namespace weft::distributed {

/// The objects of a rank that are saved and loaded.
struct ShardedRun {
  /// This rank's shards of the model, including buffers; they share the model's memory.
  io::ShardedState model;
  /// The optimizer's parameters, by their names in `model`.
  std::vector<nn::NamedTensor> parameters = {};
  /// At most one of these. `optimizer` may keep state of a parameter's shape; it is sharded like the parameter.
  optim::Optimizer* optimizer = nullptr;
  ShardedOptimizer* sharded_optimizer = nullptr;
  /// This rank's generators, such as RngTracker::generators. All ranks have the same names.
  std::map<std::string, Generator*> generators = {};
};

/// Writes a state and returns its folder. Called by all ranks of the group, with the same RunState. Replaces an
/// existing folder of the step, and removes older complete ones according to the options. Raises the ValueErrors of
/// distributed::save_state_dict and io::save_training_state, and ValueError for a parameter of the optimizer without a
/// name. Also raises it for state that is not sharded like its parameter, and for accumulated gradients that are not
/// reduced over ranks yet. Raises IoError; if one rank fails, the others raise an IoError that names it, and older
/// states are kept.
WEFT_API io::Path save_training_state(const io::Path& folder, const ShardedRun& run, const io::RunState& state,
                                      const Group& group = world(), const io::SaveStateOptions& options = {},
                                      Location where = {});

struct LoadShardedRunOptions {
  /// Loads only the model: the optimizer and the generators are unchanged, except master weights, which are set to the
  /// model's values.
  bool weights_only = false;
};

/// Loads the newest complete state of a folder that all ranks can read, or the state in the given folder itself. Called
/// by all ranks of the group. The same number of ranks resumes bit for bit. With another number, generators with equal
/// states on all ranks are restored on all ranks; every other one starts a new sequence derived from its seed and the
/// rank, and rank 0 warns. 16-bit parameters without saved master weights get them from the weights, with a warning.
/// Raises the errors of io::load_training_state and io::load_state_dict before anything is changed; if one rank fails,
/// the others raise an IoError that names it.
WEFT_API io::RunState load_training_state(const io::Path& folder, const ShardedRun& run, const Group& group = world(),
                                          const LoadShardedRunOptions& options = {}, Location where = {});

}  // namespace weft::distributed
