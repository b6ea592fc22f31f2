// State of a run besides the model: the optimizer's state by parameter name, and generators.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../../io/training/state_folder-inl.hpp"
#include "../training_state.hpp"
#include "optimizer_state.hpp"

namespace weft::distributed::detail {

/// The parameters of a run's `optimizer`, with their positions in the model. Raises ValueError for one that the model
/// lacks.
std::vector<OptimizerPart> parts_of(const ShardedRun& run);
/// The optimizer's state, as "NAME.exp_avg" with the position of parameter NAME; options as "group.0.lr".
io::ShardedState optimizer_parts(const ShardedRun& run);

/// Raises ValueError if the state in the folder is of another optimizer.
void check_optimizer(const ShardedRun& run, const io::Path& folder, Location where);
/// State by the optimizer's own keys; only without a ShardedOptimizer.
optim::Optimizer::StateDict optimizer_values(const ShardedRun& run, const io::Path& folder, Location where);
/// Sets master weights that were not loaded to the model's weights; warns unless the caller `asked_for` it.
void fill_masters(const ShardedRun& run, const io::Path& path, bool asked_for, Location where);

/// States to which a rank's generators are to be set.
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
