// What ranks keep of a run besides its model: the optimizer's state by its parameters' places, and generators.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../../io/training/state_folder-inl.hpp"
#include "../training_state.hpp"
#include "optimizer_state.hpp"

namespace weft::distributed::detail {

/// The parameters of a run's `optimizer`, each where the model's is. ValueError for one that the model lacks.
std::vector<OptimizerPart> parts_of(const ShardedRun& run);
/// The optimizer's state, "NAME.exp_avg" where the parameter NAME lies; options as "group.0.lr".
io::ShardedState optimizer_parts(const ShardedRun& run);

/// ValueError where the state in the folder is of another optimizer.
void check_optimizer(const ShardedRun& run, const io::Path& folder, Location where);
/// By the optimizer's own keys; only without a ShardedOptimizer.
optim::Optimizer::StateDict optimizer_values(const ShardedRun& run, const io::Path& folder, Location where);
/// Master weights that were not loaded become the model's weights; a warning tells of them unless it was asked for.
void fill_masters(const ShardedRun& run, const io::Path& path, bool asked_for, Location where);

/// Where a rank's generators are to stand.
class RankGenerators {
 public:
  RankGenerators() = default;
  RankGenerators(const io::OpenedFolder& opened, const std::map<std::string, Generator*>& named, const Group& group,
                 Location where);
  void set() const;

 private:
  std::vector<std::pair<Device, GeneratorState>> devices_;
  std::vector<std::pair<Generator*, GeneratorState>> named_;
};

}  // namespace weft::distributed::detail
