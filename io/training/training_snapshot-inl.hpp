// What one state of a run is made of, before it is written. Internal to io/.
#pragma once

#include "../safetensors.hpp"
#include "../training_state.hpp"

namespace weft::io {

struct TrainingSnapshot {
  int64_t step = 0;
  TensorMap weights, optimizer, masters, gradients, tensors;
  std::string optimizer_name;  ///< empty without an optimizer
  bool has_gradients = false;
  std::map<std::string, std::string> texts;  ///< by file
};

/// The tensors are the run's own.
TrainingSnapshot snapshot_of(const TrainingRun& run, const RunState& state, Location where);
/// The same without the module's tree and the state's tensors and documents, which do not change or come later.
TrainingSnapshot moment_of(const TrainingRun& run, const RunState& numbers, Location where);
/// Adds those.
void complete(TrainingSnapshot& moment, const TrainingRun& run, const RunState& state, Location where);
/// What the folder of one state holds, on the CPU. Errors as load_training_state.
TrainingSnapshot read_snapshot(const Path& state, Location where);
Path write_snapshot(const Path& folder, const TrainingSnapshot& snapshot, SaveStateOptions options, Location where);

}  // namespace weft::io
