// A training loop with steps, evaluations, checkpoints, logs and resuming. Its components can be used separately:
// Stepper, Evaluation, EarlyStopping, Checkpoints, RunFolder, EndBySignal.
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
// on_step_end, and evaluation and checkpoint if due. Only updates are counted as steps. Batches of a step are weighted
// by their number of samples, or by the weight that loss_of returns with the loss, such as the number of tokens:
// `return train::BatchLoss(loss, tokens)`. The last step of an epoch may have fewer batches, and uses their mean.
//
// A resumed run continues bit for bit: it restores model, optimizer, schedule, scaler, the loader's position, random
// generators and the best metric. Evaluations do not change the state of default generators. With one seed, losses are
// bit-identical for any number of threads and loader workers.
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
  /// Model and optimizer must outlive it. Raises ValueError for options out of range, for an optimizer without
  /// parameters of the model, and for one with other parameters if checkpoints are saved; IoError if the folder is not
  /// writable.
  Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options, Location where = {});
  template <class = void>
  Trainer(nn::Module&, optim::Optimizer&, ...) = delete;  // options have names and an order: {.epochs = 10}
  ~Trainer();
  Trainer(const Trainer&) = delete;

  /// Steps an optim::Scheduler, or anything with step(), state() and restore(), after each update, and saves it. Raises
  /// ValueError for a second scheduler.
  template <class Scheduler>
  void schedule(Scheduler& scheduler, Location where = {}) {
    static_assert(
        requires { scheduler.step(); },
        "a schedule steps after each update; pass one that steps with a figure, as ReduceOnPlateau, to keep(), "
        "and step it in on_evaluate");
    keep("scheduler", scheduler, where);
    on_update([&scheduler, where] {
      if constexpr (requires { scheduler.step(where); }) scheduler.step(where);
      else scheduler.step();
    });
  }
  /// Saves and restores `part` with the run, under `name`. It has state() and restore(), with a PartState, a text, or
  /// numbers by name, in a vector or in a struct; or state_dict() and load_state_dict() of tensors by name. Examples:
  /// optim::Averager, optim::ReduceOnPlateau, EarlyStopping, metrics and modules. If its restore raises, all parts of
  /// the run get their previous states back. Raises ValueError for a name that is already used.
  template <class Part>
  void keep(const std::string& name, Part& part, Location where = {}) {
    keep_part(detail::saved_part(name, part), where);
  }

  /// Called after each update, before the gradients are cleared.
  void on_update(Callback<void()> f);
  void on_step_end(Callback<void(const TrainEvent&)> f);
  void on_epoch_end(Callback<void(const TrainEvent&)> f);
  void on_evaluate(Callback<void(const TrainEvent&)> f);
  /// Called when a checkpoint is complete on disk.
  void on_save(Callback<void(const Checkpoints::Saved&)> f);
  /// Ends the run after the current step.
  void stop();

  /// Trains on the loader's batches. loss_of(batch) returns a batch's mean loss, as a Tensor or a BatchLoss; the
  /// default weight is the number of samples. The loader is a data::DataLoader, or any range that can be iterated again
  /// for each epoch; when resuming, a range without state() is iterated up to the saved position. `evaluate` computes
  /// metrics of validation data, without gradients and with the model in evaluation mode. Errors of a step contain its
  /// number, see Stepper. A checkpoint of another model raises the errors of io::load_training_state, and then nothing
  /// is changed. After an error the last checkpoint is available. A further call continues a stopped run; it raises
  /// ValueError if the run reached its end.
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
  /// As above, with a loop over a validation loader: each(batch, evaluation). Its position is not saved, so its order
  /// should be the same in every epoch.
  template <class Loader, class Loss, class Validation, class Each>
    requires(!std::is_convertible_v<Validation&, Callback<void(Evaluation&)>>)
  FitResult fit(Loader& loader, Loss&& loss_of, Validation& validation, Each&& each, Location where = {}) {
    return fit(loader, loss_of, Callback<void(Evaluation&)>([&](Evaluation& e) {
                 for (auto&& batch : validation) each(batch, e);
               }),
               where);
  }

  int64_t steps() const;
  /// Whether the last call of fit completed without an error.
  bool ended() const;

 private:
  template <class Loader, class Loss>
  FitResult train(Loader& loader, Loss& loss_of) {
    // The batches of a data::DataLoader were collated member by member.
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
  /// State during a call of `fit`: signal handlers and the evaluation.
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
  /// Resumes the run. Returns the number of batches of the epoch to skip.
  int64_t begin(bool passes_over);
  bool goes_on() const;
  /// Processes a batch. Returns false if a step has ended the run.
  bool take(int64_t samples, const Callback<BatchLoss()>& loss_of);
  void end_epoch();
  FitResult end();
  /// Records the current exception for the log.
  void fail();

  struct State;
  weft::detail::Pimpl<State> state_;
};

}  // namespace weft::train
