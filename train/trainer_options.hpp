// What a Trainer is told, and what it tells.
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
  /// The end: whichever comes first. At least one is above 0.
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
  /// Steps from one evaluation to the next; 0 evaluates at the end of each epoch. The end of the run always is.
  int64_t evaluate_every = 0;
  /// The figure of evaluations that tells the best state and when to stop; an evaluation without it is a ValueError.
  /// Left out, it is val_loss, where evaluations give that.
  std::string metric = {};
  EarlyStoppingOptions early_stopping = {};
  /// Saves nothing without a folder. The best state is saved with the evaluation that found it, at whatever step.
  CheckpointOptions save = {};
  /// Generators of the program's own, which are saved by name.
  std::map<std::string, Generator*> generators = {};
  /// Goes on from the newest state in save.folder, where there is one.
  bool resume = false;
  /// Every so many steps, cached blocks of memory are given back to the system; 0 never does.
  int64_t empty_cache_every = 0;
  /// SIGINT, SIGTERM and SIGHUP end the run after its step, and the state is saved.
  bool end_by_signal = true;
  RunFolder* log = nullptr;
  /// What one sample of a batch is called: the speed is logged as "samples_per_s".
  std::string unit = "samples";
};

/// Where a run stands when a callback is called.
struct TrainEvent {
  /// Updates, epochs and batches of the current epoch that were done.
  int64_t step = 0, epoch = 0, batch = 0;
  /// Of the step, or of the evaluation.
  io::Figures figures = {};
};

struct FitResult {
  int64_t steps = 0, epochs = 0;
  /// The best of `metric`.
  std::optional<double> best = {};
  bool stopped_early = false;
  /// The signal that ended it, or 0.
  int signal = 0;
};

}  // namespace weft::train
