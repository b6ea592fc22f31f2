// Saves the first bad step of a training run and replays it bit for bit.
//
//   const auto step = [&](const io::TensorMap& batch) {       // all per-step inputs are in the batch
//     optimizer.zero_grad();
//     Tensor loss = cross_entropy(model(batch.at("x")), batch.at("y"));
//     loss.backward();
//     optimizer.step();
//     return loss;
//   };
//   io::StepRecorder recorder("step.weft", {model, &optimizer});
//   for (const auto& [x, y] : loader) recorder.step(step, {{"x", x}, {"y", y}});
//
// and, in the same program or another one that constructs the model and the optimizer in the same way:
//
//   const io::ReplayedStep again = io::replay_step("step.weft", {model, &optimizer}, step);
//
// step.weft/ holds training states (training_state.hpp): at the start of the last good step, at the start of the bad
// step, and at its end. `./weft replay step.weft` describes them. `./weft replay step.weft -- PROGRAM ARGUMENTS` runs
// the program; its recorder then replays both steps instead of training.
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
  /// Conditions that make a step bad: NaN or infinity in the loss, in a gradient of the module's parameters at the end
  /// of the step, or in a parameter. An exception always makes it bad. Under a GradScaler gradients may overflow, so
  /// switch `gradients` off.
  bool loss = true, gradients = true, parameters = true;
  /// A further check, called after each step that passed the others: returns the reason why it is bad, or "".
  Callback<std::string()> finding = {};
  /// Adds other state that the step reads and writes, such as a scheduler's, to `documents` at the start of a step.
  Callback<void(RunState&)> add_state = {};
  /// Maximum bytes of one copy of a state with its batch; two copies are held in host memory. If a copy is larger,
  /// nothing is kept, with a warning.
  int64_t most_bytes = int64_t{4} << 30;
  /// The number of the first step.
  int64_t first_step = 0;
};

/// Before each step, copies to the host: the batch, the module's state and gradients, the optimizer's state and the
/// generators' state; records the modules' modes and the strides of parameters, gradients and batch. After each step,
/// checks whether it was bad. The first bad step is written; later steps cost nothing. For one training loop. The run's
/// module, optimizer and generators must outlive the recorder.
class WEFT_API StepRecorder {
 public:
  /// Writes nothing yet. Raises ValueError if `folder` exists with other contents, IoError if it is not writable, and
  /// the errors of save_training_state for an optimizer of another module.
  StepRecorder(Path folder, const TrainingRun& run, StepRecorderOptions options = {}, Location where = {});
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;

  /// Runs the step and returns its loss; exceptions of the step are rethrown. Errors in copying or writing the state
  /// are warnings. Raises ValueError for a batch with an undefined tensor.
  Tensor step(const StepFunction& function, const TensorMap& batch, Location where = {});

  /// Whether a bad step occurred.
  bool found() const;
  /// "step 41: the loss is NaN; left in step.weft: ./weft replay step.weft"; empty before a bad step.
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
  /// Why the step was bad; empty for a good one.
  std::string why;
  /// Whether the step is bad again, for the same reason.
  bool happens = false;
  /// Whether the loss and every weight, gradient, optimizer state and generator have the same bits as originally. After
  /// a good step, values that the program changed before the next step, such as a learning rate, are not compared;
  /// `text` names them.
  bool same_bits = false;
  /// Names of the differing values: "weights: hidden.weight", "loss".
  std::vector<std::string> differs;
  /// A description for people.
  std::string text;
  Tensor loss;
};

/// Loads the state at the start of the step into the run, including modules' modes and strides of parameters, and runs
/// the step. Exceptions of the function are rethrown unless the original step threw the same one, so a guard around the
/// call can name the line. Raises IoError if the folder does not exist, ValueError if it has no good step, and the
/// errors of load_training_state.
WEFT_API ReplayedStep replay_step(const Path& folder, const TrainingRun& run, const StepFunction& function,
                                  ReplayStepOptions options = {}, Location where = {});

/// Returns whether a StepRecorder wrote the folder.
WEFT_API bool holds_step(const Path& folder);
/// Describes the contents: the steps, why the last is bad, the loss, the batch, weights and gradients that are not
/// finite, and the options of the optimizer. Errors as load_training_state.
WEFT_API std::string step_text(const Path& folder, Location where = {});

}  // namespace weft::io
