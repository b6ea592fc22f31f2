// States of a run while it trains: the last ones, and the best.
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
  /// Steps from one state to the next; 0 saves at the end of each epoch. The end of the run is saved too.
  int64_t every = 0;
  /// How many states stay; 0 keeps all.
  int64_t keep_last = 2;
  /// The state with the best figure stays in `folder`/best, with the weights that were evaluated.
  bool keep_best = true;
};

/// Saves in the background, as io::BackgroundSaver does. A state that cannot be written does not end the run: stderr
/// says why, and the states that were there stay.
class WEFT_API Checkpoints {
 public:
  /// Makes the folder. IoError where nothing can be written there; ValueError for negative numbers.
  explicit Checkpoints(CheckpointOptions options, Location where = {});
  ~Checkpoints();
  Checkpoints(Checkpoints&&) noexcept;

  const CheckpointOptions& options() const;
  /// A state among the last ones, and as the best.
  void save(const io::TrainingRun& run, const io::RunState& state, bool is_best, Location where = {});
  /// A state as the best alone; nothing where none is kept. It takes the place of any that was there.
  void save_best(const io::TrainingRun& run, const io::RunState& state, Location where = {});
  /// Waits for the last save. IoError where that failed.
  void wait(Location where = {});

  struct Saved {
    io::Path path;
    int64_t step;
    bool best;
  };
  /// Called once a state is complete, in the thread that saves the next one or waits.
  void on_save(Callback<void(const Saved&)> listener);

 private:
  struct Impl;
  weft::detail::Pimpl<Impl> impl_;
};

}  // namespace weft::train
