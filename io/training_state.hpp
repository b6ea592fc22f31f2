// A run that can go on from where it stood: one folder for each saved state, and the newest complete one is loaded.
//
//   io::save_training_state("runs/a", {model, &optimizer}, {.step = step}, {.keep_last = 3});
//   const io::RunState state = io::load_training_state("runs/a", {model, &optimizer});
//
// runs/a/step-00001000/ then holds model.safetensors (the module's state_dict, as other programs read it), model.json
// (its tree, so that io::load_model reads the folder too), optimizer.safetensors (by the parameters' names),
// masters.safetensors where there are master weights, rng-0.json (every device's default generator, and those named),
// trainer.json (the numbers of RunState), gradients.safetensors where gradients are being accumulated, NAME.json for
// each document, tensors.safetensors where there are tensors besides, and COMPLETE, which tells every file's size. A
// folder takes its name when all of that is on the disk, so a process that is killed leaves the states that were there,
// and no half of one.
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

/// What is saved and loaded besides a RunState.
struct TrainingRun {
  nn::Module& module;
  optim::Optimizer* optimizer = nullptr;
  /// Generators of the program's own, by name.
  std::map<std::string, Generator*> generators = {};
  /// Those that the optimizer steps in place of the module's 16-bit weights.
  optim::MasterWeights* masters = nullptr;
};

/// Where a run stands.
struct RunState {
  int64_t step = 0, epoch = 0, samples = 0;
  std::optional<double> best_metric = {};
  /// How many backward passes the gradients hold that no step has used: above 0 the gradients are saved too.
  int64_t accumulated = 0;
  /// JSON texts by name, such as "config", "generation_config", "scheduler" and "sampler".
  std::map<std::string, std::string> documents = {};
  /// Tensors besides, by name, such as averages of the weights. No two share memory.
  std::map<std::string, Tensor> tensors = {};
};

struct SaveStateOptions {
  /// Complete states to keep, this one included; 0 keeps all. Nothing else in the folder is touched.
  int64_t keep_last = 0;
};

struct LoadStateOptions {
  /// Only the module's values: the optimizer, the generators and the gradients stay as they are.
  bool weights_only = false;
  /// How the weights of the model that was saved become those of this one, with what the optimizer keeps of them and
  /// accumulated gradients; what it leaves keeps its values, and has no optimizer's state. <weft/io/mapping.hpp>.
  const Mapping* mapping = nullptr;
  /// Called where the state fits the run, before the module is changed, to restore what else the program has; where it
  /// raises, the run is as it was. Not with weights_only.
  Callback<void()> restore_others = {};
};

/// Writes a state and returns its folder, `folder`/step-00001000; one of this step is replaced. `folder`, and those
/// above it, are made where they are missing. A run that loads it goes on bit for bit. Several processes may save to
/// one folder. IoError; ValueError for a negative number, a document that is no JSON or has no plain name, an optimizer
/// with parameters that are neither the module's nor its masters', and as save_file. Where it fails, the states that
/// were there stay.
WEFT_API Path save_training_state(const Path& folder, const TrainingRun& run, const RunState& state,
                                  SaveStateOptions options = {}, Location where = {});

/// The complete states in a folder, by step; empty where there are none.
WEFT_API std::vector<Path> training_states(const Path& folder);

/// Loads the newest complete state of a folder, or the state whose own folder is given, into a module and an optimizer
/// made in the same way. IoError where there is none, FormatError where a file is damaged or missing, VersionError
/// where a newer program wrote it; ValueError and ShapeError where it is of another module or optimizer, or has no
/// optimizer's state or masters, and the errors of Mapping::apply. Nothing is changed then. Where the newest state is
/// damaged the error names the last whole one, whose folder may be given.
WEFT_API RunState load_training_state(const Path& folder, const TrainingRun& run, LoadStateOptions options = {},
                                      Location where = {});

/// The numbers and documents of such a state alone, for example to build the module from its "config".
WEFT_API RunState read_run_state(const Path& folder, Location where = {});

/// Saves in the background: `save` returns once everything is copied to the host's memory, and the training may change
/// it at once. One save runs at a time; the next waits for it.
class WEFT_API BackgroundSaver {
 public:
  /// Makes the folder; one that vanishes later is an error. IoError where nothing can be written there.
  explicit BackgroundSaver(Path folder, SaveStateOptions options = {}, Location where = {});
  /// Waits; what nobody was told of becomes a warning.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;

  /// Raises what the save before this one failed with, or what save_training_state raises before it writes.
  void save(const TrainingRun& run, const RunState& state, Location where = {});
  /// Waits for the save that runs, and raises what it failed with; the last state's folder, empty before the first.
  Path wait();

 private:
  struct Impl;
  detail::Pimpl<Impl> impl_;
};

}  // namespace weft::io
