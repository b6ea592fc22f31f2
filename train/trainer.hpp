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
// on_step_end, the evaluation and the state where they are due. Steps count updates alone. Batches of a step count by
// their number of samples, or by the weight that loss_of returns with the loss, such as the number of tokens: `return
// train::BatchLoss(loss, tokens)`. An epoch's last step may have fewer batches, and is their mean. A resumed run
// continues bit for bit: it restores model, optimizer, schedule, scaler, the loader's position, random generators and
// the best figure. What an evaluation draws from default generators does not move them. With one seed, losses are the
// same bits for any number of threads and of a loader's workers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "evaluation.hpp"
#include "saved_part.hpp"
#include "trainer_options.hpp"

namespace weft::train {

class WEFT_API Trainer {
 public:
  /// Model and optimizer must outlive it. ValueError for options out of range, and for an optimizer without parameters
  /// of the model, or with others where states are saved; IoError where nothing can be saved.
  Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options, Location where = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;

  /// Steps an optim::Scheduler, or anything with step(), state() and restore(), after each update, and saves it.
  /// ValueError for a second one.
  template <class Scheduler>
  void schedule(Scheduler& scheduler, Location where = {}) {
    static_assert(
        requires { scheduler.step(); },
        "a schedule steps after each update; what steps with a figure, as ReduceOnPlateau, goes to keep(), and "
        "is stepped in on_evaluate");
    keep("scheduler", scheduler, where);
    on_update([&scheduler, where] {
      if constexpr (requires { scheduler.step(where); }) scheduler.step(where);
      else scheduler.step();
    });
  }
  /// Saves and restores something else with the run: it has state() and restore(), of a PartState, of a text or of
  /// numbers, by name, in a vector or in a struct; or state_dict() and load_state_dict(), of tensors by name. So have
  /// optim::Averager, optim::ReduceOnPlateau, EarlyStopping, the metrics and modules. Where its restore raises, it gets
  /// the state back that it had, as all else of the run. ValueError for a name that is taken.
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

  /// Trains on the loader's batches: loss_of(batch) is a batch's mean loss, a Tensor or a BatchLoss, whose
  /// weight is the number of samples where it names none. The loader is a data::DataLoader, or any
  /// range that can be gone over anew for each epoch; one without state() is, on resuming, gone over to where it stood.
  /// `evaluate` gathers figures of data that was held back, without gradients and with the model in eval(). Errors of a
  /// step name it, as Stepper says; of a resumed state, io::load_training_state: one of another model is refused, and
  /// nothing is changed. Then the last state that was saved is there. A further call goes on where the one before was
  /// stopped; ValueError where that reached the end.
  template <class Loader, class Loss>
  FitResult fit(Loader& loader, Loss&& loss_of, Callback<void(Evaluation&)> evaluate = {}, Location where = {}) {
    if constexpr (requires { loader.state(); }) keep("loader", loader, where);
    const Session session(*this, std::move(evaluate), batches_of(loader), where);
    try {
      return train(loader, loss_of);
    } catch (...) {
      fail();
      throw;
    }
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
  /// Whether the last call of fit came to an end, and to no error.
  bool ended() const;

 private:
  template <class Loader, class Loss>
  FitResult train(Loader& loader, Loss& loss_of) {
    // The batches of a data::DataLoader were made member by member.
    constexpr bool by_fields = requires { typename Loader::Batch; };
    int64_t passed = begin(!requires { loader.state(); });
    while (goes_on()) {
      bool is_whole = true;
      for (auto&& batch : loader) {
        if (passed > 0) {
          --passed;
          continue;
        }
        is_whole = take(detail::samples_in<by_fields>(batch), [&] { return loss_of(batch); });
        if (!is_whole) break;
      }
      if (is_whole) end_epoch();
    }
    return end();
  }
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
  bool take(int64_t samples, const Callback<BatchLoss()>& loss_of);
  void end_epoch();
  FitResult end();
  /// Notes the error that is being handled, for the log.
  void fail();

  struct State;
  weft::detail::Pimpl<State> state_;
};

}  // namespace weft::train
