// Options, events and results of a Trainer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "checkpoints.hpp"
#include "early_stopping.hpp"
#include "run_folder.hpp"
#include "stepper.hpp"

namespace weft::train {

struct TrainerOptions {
  /// The run ends at whichever comes first; at least one must be above 0.
  int64_t epochs = 0, steps = 0;
  /// As in StepOptions.
  int64_t accumulate = 1;
  double clip_norm = 0;
  std::optional<AutocastOptions> autocast = {};
  optim::GradScaler* scaler = nullptr;
  optim::MasterWeights* masters = nullptr;
  bool halt_on_nan = true, offload_optimizer = false;
  Callback<void()> reduce = {};
  Callback<double(double)> mean_weight = {};
  GradientRecorder* recorder = nullptr;
  int64_t rank = 0;
  /// Steps between two evaluations; 0 evaluates at the end of each epoch. The end of the run is always evaluated.
  int64_t evaluate_every = 0;
  /// The metric that determines the best checkpoint and early stopping. An evaluation without it raises ValueError.
  /// Default: val_loss, if evaluations have it.
  std::string metric = {};
  EarlyStoppingOptions early_stopping = {};
  /// Saves nothing without a folder. The best checkpoint is saved after the evaluation that found it, at any step.
  CheckpointOptions save = {};
  /// Further generators of the program, saved by name.
  std::map<std::string, Generator*> generators = {};
  /// Resume from the newest checkpoint in save.folder, if there is one.
  bool resume = false;
  /// Number of steps between two releases of cached memory to the system; 0 never releases it.
  int64_t empty_cache_every = 0;
  /// SIGINT, SIGTERM and SIGHUP end the run after the current step, with a checkpoint.
  bool end_by_signal = true;
  RunFolder* log = nullptr;
  /// Name of a sample: the speed is logged as "samples_per_s".
  std::string unit = "samples";
};

/// Progress of a run when a callback is called.
struct TrainEvent {
  /// Number of completed updates, epochs, and batches of the current epoch.
  int64_t step = 0, epoch = 0, batch = 0;
  /// Metrics of the step or the evaluation.
  io::Figures figures = {};
};

struct FitResult {
  int64_t steps = 0, epochs = 0;
  /// The best value of `metric`.
  std::optional<double> best = {};
  bool stopped_early = false;
  /// The signal that ended the run, or 0.
  int signal = 0;
};

}  // namespace weft::train
