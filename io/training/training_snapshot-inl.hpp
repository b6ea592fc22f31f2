// The contents of a training state before it is written. Internal to io/.
#pragma once

#include "../safetensors.hpp"
#include "../training_state.hpp"

namespace weft::io {

struct TrainingSnapshot {
  int64_t step = 0;
  TensorMap weights, optimizer, masters, gradients, tensors;
  std::string optimizer_name;  ///< empty without an optimizer
  bool has_gradients = false;
  std::map<std::string, std::string> texts;  ///< by file name
};

/// The tensors share memory with the run.
TrainingSnapshot snapshot_of(const TrainingRun& run, const RunState& state, Location where);
/// Same without the module's tree and the state's tensors and documents, which are constant or added later.
TrainingSnapshot moment_of(const TrainingRun& run, const RunState& numbers, Location where);
/// Adds the contents that moment_of omits.
void complete(TrainingSnapshot& moment, const TrainingRun& run, const RunState& state, Location where);
/// Reads the folder of one state to the CPU. Errors as load_training_state.
TrainingSnapshot read_snapshot(const Path& state, Location where);
Path write_snapshot(const Path& folder, const TrainingSnapshot& snapshot, SaveStateOptions options, Location where);

}  // namespace weft::io
