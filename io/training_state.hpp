// Checkpoints of a whole training run: one folder for each saved state; loading takes the newest complete one.
//
//   io::save_training_state("runs/a", {model, &optimizer}, {.step = step}, {.keep_last = 3});
//   const io::RunState state = io::load_training_state("runs/a", {model, &optimizer});
//
// runs/a/step-00001000/ then holds:
//   model.safetensors      the module's state_dict, readable by other programs
//   model.json             the module's tree, so that io::load_model reads the folder too
//   optimizer.safetensors  by parameter name
//   masters.safetensors    if there are master weights
//   rng-0.json             every device's default generator, and the named ones
//   trainer.json           the counters of RunState
//   gradients.safetensors  if gradients are being accumulated
//   NAME.json              for each document
//   tensors.safetensors    if there are additional tensors
//   COMPLETE               the size of every file
// A folder gets its final name when all of that is on disk, so a killed process never leaves an incomplete state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "path.hpp"
#include "../nn/module.hpp"
#include "../optim/optim.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/generator.hpp"
#include "../tensor/pimpl.hpp"

namespace weft::optim {
class MasterWeights;
}

namespace weft::io {

class Mapping;

/// The objects that are saved and loaded, apart from a RunState.
struct TrainingRun {
  nn::Module& module;
  optim::Optimizer* optimizer = nullptr;
  /// Additional generators by name.
  std::map<std::string, Generator*> generators = {};
  /// Master weights that the optimizer updates instead of the module's 16-bit weights.
  optim::MasterWeights* masters = nullptr;
};

/// Progress of a run, with additional documents and tensors.
struct RunState {
  int64_t step = 0, epoch = 0, samples = 0;
  std::optional<double> best_metric = {};
  /// Backward passes accumulated in the gradients since the last optimizer step. If above 0, the gradients are saved
  /// too.
  int64_t accumulated = 0;
  /// JSON texts by name, such as "config", "generation_config", "scheduler" and "sampler".
  std::map<std::string, std::string> documents = {};
  /// Additional tensors by name, such as averages of the weights. They must not share memory.
  std::map<std::string, Tensor> tensors = {};
};

struct SaveStateOptions {
  /// Complete states to keep, including this one; 0 keeps all. Nothing else in the folder is removed.
  int64_t keep_last = 0;
};

struct LoadStateOptions {
  /// Loads only the module's values; the optimizer, the generators and the gradients stay unchanged.
  bool weights_only = false;
  /// Maps the saved weights, their optimizer state and accumulated gradients to this model. Weights that the mapping
  /// excludes keep their values and have no optimizer state. See <weft/io/mapping.hpp>.
  const Mapping* mapping = nullptr;
  /// Called when the state has been found to fit the run, before the module is changed, to restore other state of the
  /// program. If it throws, the run stays unchanged. Raises ValueError together with weights_only.
  Callback<void()> restore_others = {};
};

/// Writes a state and returns its folder, `folder`/step-00001000; an existing state of this step is replaced. `folder`
/// and its parents are created if missing. A run loaded from the state continues bit for bit. Several processes may
/// save to one folder. Raises IoError; ValueError for a negative counter, a document that is not JSON or has no plain
/// name, and an optimizer with parameters of neither the module nor its masters; and the errors of save_file. On an
/// error the existing states stay.
WEFT_API Path save_training_state(const Path& folder, const TrainingRun& run, const RunState& state,
                                  SaveStateOptions options = {}, Location where = {});

/// Returns the complete states in a folder, by step; empty if there are none.
WEFT_API std::vector<Path> training_states(const Path& folder);

/// Loads the newest complete state of a folder, or the state in `folder` itself, into a module and an optimizer that
/// were constructed in the same way.
///
/// Raises IoError if there is none, FormatError if a file is damaged or missing, and VersionError if a newer version
/// wrote it. Raises ValueError and ShapeError if it belongs to another module or optimizer, or lacks the optimizer
/// state or masters. Also raises the errors of Mapping::apply. Nothing is changed on an error. If the newest state is
/// damaged, the error names the last complete one; its folder can be passed instead.
WEFT_API RunState load_training_state(const Path& folder, const TrainingRun& run, LoadStateOptions options = {},
                                      Location where = {});

/// Returns only the counters and documents of such a state, for example to build the module from its "config".
WEFT_API RunState read_run_state(const Path& folder, Location where = {});

/// Saves in the background. `save` returns once everything is copied to host memory, so training can continue at once.
/// One save runs at a time; the next waits for it.
class WEFT_API BackgroundSaver {
 public:
  /// Creates the folder; removing it later is an error. Raises IoError if it is not writable.
  explicit BackgroundSaver(Path folder, SaveStateOptions options = {}, Location where = {});
  /// Waits for the running save; an unreported error becomes a warning.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;

  /// Raises the error of the previous save, and the errors that save_training_state raises before it writes.
  void save(const TrainingRun& run, const RunState& state, Location where = {});
  /// Waits for the running save, raises its error, and returns the last state's folder; empty before the first save.
  Path wait();

 private:
  struct Impl;
  detail::Pimpl<Impl> impl_;
};

}  // namespace weft::io
