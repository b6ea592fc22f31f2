// The first bad step of a training, kept whole and run again bit for bit.
//
//   const auto step = [&](const io::TensorMap& batch) {       // all that changes from step to step is in the batch
//     optimizer.zero_grad();
//     Tensor loss = cross_entropy(model(batch.at("x")), batch.at("y"));
//     loss.backward();
//     optimizer.step();
//     return loss;
//   };
//   io::StepRecorder recorder("step.weft", {model, &optimizer});
//   for (const auto& [x, y] : loader) recorder.step(step, {{"x", x}, {"y", y}});
//
// and, in a program that makes the model and the optimizer in the same way, or in the same one:
//
//   const io::ReplayedStep again = io::replay_step("step.weft", {model, &optimizer}, step);
//
// step.weft/ holds training states (training_state.hpp): as the last good step began, as the bad one began, and as that
// one ended. `./weft replay step.weft` says what they hold, `./weft replay step.weft -- PROGRAM ARGUMENTS` runs the
// program, whose recorder then replays both steps instead of training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "path.hpp"
#include "safetensors.hpp"
#include "training_state.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/pimpl.hpp"

namespace weft::io {

/// Runs a step on a batch and returns its loss, or an undefined tensor.
using StepFunction = Callback<Tensor(const TensorMap& batch)>;

struct StepRecorderOptions {
  /// What makes a step bad besides an exception that leaves it: NaN or infinity in the loss, in a gradient of the
  /// module's parameters that is there when it ends, or in a parameter. Under a GradScaler gradients may overflow.
  bool loss = true, gradients = true, parameters = true;
  /// Called after each step that those find good: why it is bad, or nothing.
  Callback<std::string()> finding = {};
  /// Adds to the state with which a step begins what else it reads and writes, such as a scheduler's, in `documents`.
  Callback<void(RunState&)> add_state = {};
  /// Of one copy of a state with its batch; two are held in the host's memory. Beyond it nothing is kept, and a
  /// warning says so.
  int64_t most_bytes = int64_t{4} << 30;
  /// The number of the first step.
  int64_t first_step = 0;
};

/// Copies to the host, before each step, the batch, the module's state, its gradients, what the optimizer keeps, and
/// where the generators stand, and notes modules' modes and the strides of parameters, gradients and batch; after each
/// looks whether the step was bad. The first bad one is written, and from then on steps cost nothing. For one training
/// loop; the run's parts must outlive it.
class WEFT_API StepRecorder {
 public:
  /// Nothing is written yet. ValueError where `folder` is there and holds something else, IoError where nothing can be
  /// written, and as save_training_state for an optimizer that is not of the module.
  StepRecorder(Path folder, const TrainingRun& run, StepRecorderOptions options = {}, Location where = {});
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;

  /// Runs the step and returns its loss; an exception that leaves it is passed on. What goes wrong in keeping or
  /// writing it is a warning. ValueError for a batch with an undefined tensor.
  Tensor step(const StepFunction& function, const TensorMap& batch, Location where = {});

  /// Whether a bad step came.
  bool found() const;
  /// "step 41: the loss is NaN; left in step.weft: ./weft replay step.weft"; empty before.
  const std::string& text() const;

 private:
  struct Impl;
  detail::Pimpl<Impl> impl_;
};

struct ReplayStepOptions {
  /// Runs the good step before the bad one.
  bool last_good = false;
  /// Called with the loaded state before the step runs.
  Callback<void(const RunState&)> restore_state = {};
};

struct ReplayedStep {
  int64_t step = 0;
  /// Why it was bad; empty for a good one.
  std::string why;
  /// It is bad again, for the same reason.
  bool happens = false;
  /// The loss, and every weight, gradient, number of the optimizer and generator, have the bits of then. Of a good step
  /// what the program changed between it and the next, such as a learning rate, is not compared; `text` names it.
  bool same_bits = false;
  /// What has others, by name: "weights: hidden.weight", "loss".
  std::vector<std::string> differs;
  /// Lines for people.
  std::string text;
  Tensor loss;
};

/// Loads the state with which the step began into the run, modules' modes and strides of parameters too, and runs it.
/// What the function throws is passed on, unless the step threw the same then: so a guard around it may name the line.
/// IoError where there is no such folder, ValueError where it has no good step, and the errors of load_training_state.
WEFT_API ReplayedStep replay_step(const Path& folder, const TrainingRun& run, const StepFunction& function,
                                  ReplayStepOptions options = {}, Location where = {});

/// Whether a StepRecorder wrote the folder.
WEFT_API bool holds_step(const Path& folder);
/// What it holds, in lines for people: the steps and why the last is bad, the loss, the batch, which weights and
/// gradients are not finite, and what the optimizer was told. Errors as load_training_state.
WEFT_API std::string step_text(const Path& folder, Location where = {});

}  // namespace weft::io
