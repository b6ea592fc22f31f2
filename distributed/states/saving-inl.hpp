// Saving in two steps: what is saved and who writes it, which all ranks settle, and writing it. Not public.
#pragma once

#include <string>
#include <vector>

#include "../training_state.hpp"

namespace weft::distributed::detail {

/// This rank's parts of a state, and which of them it writes; the plan is the same on all ranks.
struct PlannedState {
  io::ShardedState parts;
  io::StateMetadata plan;
};
/// Without an id it is the next one of the folder.
PlannedState planned(const io::ShardedState& state, const io::Path& folder, const Group& group,
                     const io::SaveStateDictOptions& options, Location where);
/// Only what this rank writes, copied to the host's memory.
void take_copies(PlannedState& state, int rank);
void write(const PlannedState& state, const io::Path& folder, const Group& group, Location where);

/// A run as it is saved.
struct PlannedRun {
  /// Parts by the names of their folders.
  std::vector<std::pair<std::string, PlannedState>> states;
  /// Of this rank.
  std::string generators;
  io::RunState numbers;
};
/// Errors as save_training_state, before anything is written.
PlannedRun planned_run(const ShardedRun& run, const io::RunState& state, const Group& group, Location where);
/// The state's folder within `folder`.
io::Path write_run(const PlannedRun& run, const io::Path& folder, const Group& group,
                   const io::SaveStateOptions& options, Location where);

}  // namespace weft::distributed::detail
