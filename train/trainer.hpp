// A loop that trains: steps, evaluations, states, logs, and going on where a run stood. Each of its parts is a value of
// its own: Stepper, Evaluation, EarlyStopping, Checkpoints, RunFolder, EndBySignal.
//
//   train::Trainer trainer(model, optimizer, {.epochs = 10, .clip_norm = 1, .save = {.folder = "runs/a/states"},
//                                             .resume = true, .log = &run});
//   trainer.schedule(rates);
//   trainer.fit(
//       loader, [&](auto& batch) { return cross_entropy(model(batch.x), batch.y); },
//       validation, [&](auto& batch, train::Evaluation& e) {
//         e.metric<train::Accuracy>("val_accuracy").update(model(batch.x), batch.y);
//       });
//
// A step is: forward and backward of `accumulate` batches, reduce, unscale, clip, optimizer, schedule, zero; then
// on_step_end, the evaluation and the state where they are due. Steps count updates alone. An epoch's last step may
// have fewer batches, and is their mean. A resumed run continues bit for bit: it restores model, optimizer, schedule,
// scaler, the loader's position, random generators and the best figure. With one seed, losses are the same bits for any
// number of threads and of a loader's workers.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoints.hpp"
#include "early_stopping.hpp"
#include "evaluation.hpp"
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
  bool halt_on_nan = true, offload_optimizer = false;
  Callback<void()> reduce = {};
  GradientRecorder* recorder = nullptr;
  int64_t rank = 0;
  /// Steps from one evaluation to the next; 0 evaluates at the end of each epoch. The end of the run always is.
  int64_t evaluate_every = 0;
  /// The figure of evaluations that tells the best state and when to stop.
  std::string metric = "val_loss";
  EarlyStoppingOptions early_stopping = {};
  /// Saves nothing without a folder.
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

namespace detail {

/// A part of the run that is saved as a JSON text.
struct SavedPart {
  std::string name;
  Callback<std::string()> state;
  Callback<void(const std::string&)> restore;
};

WEFT_API std::string numbers_text(const std::map<std::string, double>& numbers);
WEFT_API std::map<std::string, double> numbers_in(const std::string& text);

/// Anything with state() and restore(), whose state is a text or numbers by name.
template <class Part>
SavedPart saved_part(const std::string& name, Part& part) {
  if constexpr (requires { part.restore(std::string(part.state())); }) {
    return {name, [&part] { return std::string(part.state()); }, [&part](const std::string& s) { part.restore(s); }};
  } else {
    return {name, [&part] { return numbers_text(part.state()); },
            [&part](const std::string& s) { part.restore(numbers_in(s)); }};
  }
}

/// How many samples a batch has: the first size of a tensor, of the first part of a tuple, or of a member `x`.
template <class Batch>
int64_t samples_in(const Batch& batch) {
  if constexpr (requires {
                  batch.dim();
                  batch.size(0);
                })
    return batch.dim() > 0 ? batch.size(0) : 1;
  else if constexpr (requires { std::tuple_size<Batch>::value; }) return samples_in(std::get<0>(batch));
  else if constexpr (requires { batch.x; }) return samples_in(batch.x);
  else return 1;
}

}  // namespace detail

class WEFT_API Trainer {
 public:
  /// Model and optimizer must outlive it. ValueError for options out of range; IoError where nothing can be saved.
  Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options, Location where = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;

  /// Steps an optim::Scheduler, or anything with step(), state() and restore(), after each update, and saves it.
  template <class Scheduler>
  void schedule(Scheduler& scheduler) {
    on_update([&scheduler] { scheduler.step(); });
    keep("scheduler", scheduler);
  }
  /// Saves and restores something else with the run: it has state() and restore(). ValueError for a name that is taken.
  template <class Part>
  void keep(const std::string& name, Part& part, Location where = {}) {
    keep_part(detail::saved_part(name, part), where);
  }

  /// Called after each update, before the gradients are dropped.
  void on_update(Callback<void()> f);
  void on_step_end(Callback<void(const TrainEvent&)> f);
  void on_epoch_end(Callback<void(const TrainEvent&)> f);
  void on_evaluate(Callback<void(const TrainEvent&)> f);
  /// A state is complete on the disk.
  void on_save(Callback<void(const Checkpoints::Saved&)> f);
  /// Ends the run after the step that runs.
  void stop();

  /// Trains on the loader's batches: loss_of(batch) is a batch's mean loss. The loader is a data::DataLoader, or any
  /// range that can be gone over anew for each epoch; one without state() is, on resuming, gone over to where it stood.
  /// `evaluate` gathers figures of data that was held back, without gradients and with the model in eval(). Errors of a
  /// step name it, as Stepper says; of a resumed state, io::load_training_state: one of another model is refused, and
  /// nothing is changed. Then the last state that was saved is there.
  template <class Loader, class Loss>
  FitResult fit(Loader& loader, Loss&& loss_of, Callback<void(Evaluation&)> evaluate = {}, Location where = {}) {
    if constexpr (requires { loader.state(); }) keep("loader", loader, where);
    const Session session(*this, std::move(evaluate), batches_of(loader), where);
    int64_t passed = begin(!requires { loader.state(); });
    while (goes_on()) {
      bool is_whole = true;
      for (auto&& batch : loader) {
        if (passed > 0) {
          --passed;
          continue;
        }
        is_whole = take(detail::samples_in(batch), [&] { return loss_of(batch); });
        if (!is_whole) break;
      }
      if (is_whole) end_epoch();
    }
    return end();
  }
  /// The same, with a loop over a second loader: each(batch, evaluation). Its place is not saved, so its order should
  /// be the same in every epoch.
  template <class Loader, class Loss, class Validation, class Each>
    requires(!std::is_convertible_v<Validation&, Callback<void(Evaluation&)>>)
  FitResult fit(Loader& loader, Loss&& loss_of, Validation& validation, Each&& each, Location where = {}) {
    return fit(loader, loss_of, Callback<void(Evaluation&)>([&](Evaluation& e) {
                 for (auto&& batch : validation) each(batch, e);
               }),
               where);
  }

  int64_t steps() const;

 private:
  /// What lives while `fit` runs: handlers of signals, the evaluation.
  class WEFT_API Session {
   public:
    Session(Trainer& trainer, Callback<void(Evaluation&)> evaluate, int64_t batches, Location where);
    ~Session();

   private:
    Trainer& trainer_;
  };
  template <class Loader>
  static int64_t batches_of(Loader& loader) {
    if constexpr (requires { static_cast<int64_t>(loader.size()); }) {
      try {
        return static_cast<int64_t>(loader.size());
      } catch (const ValueError&) {  // a stream has no size
      }
    }
    return 0;
  }
  void keep_part(detail::SavedPart part, Location where);
  /// Resumes; returns how many batches of the epoch are to be passed over.
  int64_t begin(bool passes_over);
  bool goes_on() const;
  /// A batch; false where a step has ended the run.
  bool take(int64_t samples, const Callback<Tensor()>& loss_of);
  void end_epoch();
  FitResult end();

  struct State;
  weft::detail::Pimpl<State> state_;
};

}  // namespace weft::train
