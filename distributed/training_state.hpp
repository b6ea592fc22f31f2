// A training run of several ranks that can go on from where it stood, on as many ranks or on others.
//
//   ShardedRun run{.model = io::unsharded(net.state_dict()),          // or parts, by shard_of and sharded_state
//                  .parameters = net.named_parameters(),
//                  .sharded_optimizer = &optimizer};
//   save_training_state("runs/a", run, {.step = step}, group, {.keep_last = 3});
//   const io::RunState state = load_training_state("runs/a", run, group);
//
// runs/a/step-00001000/ then holds the folders model and optimizer, each a state in parts (sharded_state.hpp) with all
// ranks' files, tensors where the RunState has any, rng-RANK.json of each rank, trainer.json, NAME.json for each
// document, and COMPLETE, which tells every file's size. It takes its name when all ranks have written, so that ranks
// that are killed leave the states that were there. io::merge_sharded makes model a file for one process.
#pragma once

#include "../io/training_state.hpp"
#include "sharded_optimizer.hpp"
#include "sharded_state.hpp"

namespace weft::distributed {

/// What a rank saves and loads.
struct ShardedRun {
  /// Its parts of the model, buffers too; they share the model's memory.
  io::ShardedState model;
  /// Those that the optimizer updates, by their names in `model`.
  std::vector<nn::NamedTensor> parameters = {};
  /// One of these, or neither. The first keeps of a parameter what has its shape, which lies as the parameter does.
  optim::Optimizer* optimizer = nullptr;
  ShardedOptimizer* sharded_optimizer = nullptr;
  /// This rank's, such as RngTracker::generators. All ranks have the same names.
  std::map<std::string, Generator*> generators = {};
};

/// Writes a state and returns its folder. Called by all ranks of the group, with the same RunState. A folder of the
/// step is replaced, and older complete ones are removed as the options say. ValueError as distributed::save_state_dict
/// and io::save_training_state, for a parameter of the optimizer without a name, for state that lies otherwise than its
/// parameter, and for accumulated gradients, which ranks have not added up yet. IoError; where one rank fails the
/// others get one that names it, and the states that were there stay.
WEFT_API io::Path save_training_state(const io::Path& folder, const ShardedRun& run, const io::RunState& state,
                                      const Group& group = world(), const io::SaveStateOptions& options = {},
                                      Location where = {});

struct LoadShardedRunOptions {
  /// Only the model: the optimizer and the generators stay as they are, but for master weights, which become it.
  bool weights_only = false;
};

/// Loads the newest complete state of a folder that all ranks see, or the state whose own folder is given. Called by
/// all ranks of the group. As many ranks as saved it go on bit for bit. On another number, generators that stood alike
/// on all ranks stand so again, and every other one goes on in a sequence of its own by its seed and the rank, which
/// rank 0 says in a warning. 16-bit parameters whose master weights were not saved get them from the weights, with a
/// warning. Errors as io::load_training_state and io::load_state_dict, before anything is changed; where one rank
/// fails, the others get an IoError that names it.
WEFT_API io::RunState load_training_state(const io::Path& folder, const ShardedRun& run, const Group& group = world(),
                                          const LoadShardedRunOptions& options = {}, Location where = {});

}  // namespace weft::distributed
