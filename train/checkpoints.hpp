// Checkpoints of a training run: the latest ones, and the best.
//
//   train::Checkpoints checkpoints({.folder = "runs/a/states", .keep_last = 2});
//   checkpoints.save({model, &optimizer}, {.step = step}, is_best);
//   io::load_training_state("runs/a/states/best", {model});
#pragma once

#include "../io/training_state.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/pimpl.hpp"

namespace weft::train {

struct CheckpointOptions {
  io::Path folder = {};
  /// Steps between two checkpoints; 0 saves at the end of each epoch. The end of the run is also saved.
  int64_t every = 0;
  /// Number of latest checkpoints to keep; 0 keeps all.
  int64_t keep_last = 2;
  /// Keep the checkpoint with the best metric in `folder`/best, with the weights that were evaluated.
  bool keep_best = true;
};

/// Saves in the background, as io::BackgroundSaver. A failed save does not end the run: the reason is printed to
/// stderr, and earlier checkpoints are kept.
class WEFT_API Checkpoints {
 public:
  /// Creates the folder. Raises IoError if it is not writable, ValueError for negative numbers.
  explicit Checkpoints(CheckpointOptions options, Location where = {});
  ~Checkpoints();
  Checkpoints(Checkpoints&&) noexcept;

  const CheckpointOptions& options() const;
  /// Saves a checkpoint among the latest ones, and with `is_best` also as the best.
  void save(const io::TrainingRun& run, const io::RunState& state, bool is_best, Location where = {});
  /// Saves a checkpoint as the best one only, which replaces any earlier one. Does nothing if `keep_best` is off.
  void save_best(const io::TrainingRun& run, const io::RunState& state, Location where = {});
  /// Waits for the last save. Raises IoError if it failed.
  void wait(Location where = {});

  struct Saved {
    io::Path path;
    int64_t step;
    bool best;
  };
  /// `listener` is called after a checkpoint is complete, on the thread that saves the next one or waits.
  void on_save(Callback<void(const Saved&)> listener);

 private:
  struct Impl;
  weft::detail::Pimpl<Impl> impl_;
};

}  // namespace weft::train
