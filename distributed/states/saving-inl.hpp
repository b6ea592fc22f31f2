// Saving in two steps: a plan that all ranks agree on (what each rank writes), and the writing. Not public.
#pragma once

#include <string>
#include <vector>

#include "../training_state.hpp"

namespace weft::distributed::detail {

/// This rank's shards of a state, and the plan for who writes which, which is the same on all ranks.
struct PlannedState {
  io::ShardedState parts;
  io::StateMetadata plan;
};
/// Without an id, uses the folder's next one.
PlannedState planned(const io::ShardedState& state, const io::Path& folder, const Group& group,
                     const io::SaveStateDictOptions& options, Location where);
/// Keeps only the shards that this rank writes, copied to host memory.
void take_copies(PlannedState& state, int rank);
void write(const PlannedState& state, const io::Path& folder, const Group& group, Location where);

struct PlannedRun {
  /// States by folder name.
  std::vector<std::pair<std::string, PlannedState>> states;
  std::string generators;
  io::RunState numbers;
};
/// Raises the errors of save_training_state, before anything is written.
PlannedRun planned_run(const ShardedRun& run, const io::RunState& state, const Group& group, Location where);
/// Returns the state's folder within `folder`.
io::Path write_run(const PlannedRun& run, const io::Path& folder, const Group& group,
                   const io::SaveStateOptions& options, Location where);

}  // namespace weft::distributed::detail
