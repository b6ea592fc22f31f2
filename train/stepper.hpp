// One training step in the correct order: backward of each batch, reduce, unscale, clip, optimizer, schedule, zero.
//
//   train::Stepper stepper(model, optimizer, {.accumulate = 4, .clip_norm = 1});
//   for (auto& [x, y] : loader) {
//     const auto loss = [&] { return train::BatchLoss(cross_entropy(model(x), y), y.numel()); };
//     if (const auto done = stepper.step(loss)) log(done->loss);
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "../autograd/autocast.hpp"
#include "../nn/module.hpp"
#include "../optim/batch_loss.hpp"
#include "../optim/grad_scaler.hpp"
#include "../optim/master_weights.hpp"
#include "../optim/optim.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/generator.hpp"

namespace weft {
class GradientRecorder;
}

namespace weft::train {

using optim::BatchLoss;

struct StepOptions {
  /// Number of batches per step; the gradient is their weighted mean.
  int64_t accumulate = 1;
  /// Maximum joint norm of the gradients; 0 disables clipping.
  double clip_norm = 0;
  /// Run forward passes in mixed precision.
  std::optional<AutocastOptions> autocast = {};
  /// Scales losses, and skips steps with gradients that are not finite. It must outlive the stepper.
  optim::GradScaler* scaler = nullptr;
  /// Master weights that the optimizer steps in place of the model's 16-bit weights. They must outlive the stepper.
  optim::MasterWeights* masters = nullptr;
  /// Raise NonFiniteError for a loss or a gradient that is not finite, before anything is updated. Waits for the device
  /// in every step.
  bool halt_on_nan = true;
  /// Keep the optimizer's state on the CPU between two steps, to free device memory for forward and backward.
  bool offload_optimizer = false;
  /// Called when the gradients of a step are complete, for example to sum them over processes.
  Callback<void()> reduce = {};
  /// Required if `reduce` averages over processes with batches of different weight. Returns the mean over processes of
  /// a step's weight from that of this process, such as `[](double own) { return distributed::mean_weight(own); }`.
  /// Called before the last backward of a step.
  Callback<double(double)> mean_weight = {};
  /// Called after each update, such as `[&] { rates.step(); }`.
  Callback<void()> schedule = {};
  /// Ends its step before the gradients are cleared. It uses the same step numbers, from 1.
  GradientRecorder* recorder = nullptr;
  /// The rank of this process, for error messages.
  int64_t rank = 0;
};

struct StepResult {
  /// False if the scaler skipped the step, or if all weights were 0; the step count then does not change.
  bool updated;
  /// The weighted mean of the batches' losses.
  double loss;
  /// Before clipping; absent if it was not computed.
  std::optional<double> grad_norm;
  /// The sum of the batches' weights.
  double weight = 0;
};

class WEFT_API Stepper {
 public:
  /// Model and optimizer must outlive it. Raises ValueError for options out of range, and if the optimizer has no
  /// parameter of the model or of its masters.
  Stepper(nn::Module& model, optim::Optimizer& optimizer, StepOptions options = {}, Location where = {});

  /// Runs forward and backward of a batch, and after the last batch of a step the update. `loss_of` returns the batch's
  /// mean loss and its weight, 1 by default. A batch of weight 0 has no backward, unless `mean_weight` is set: then
  /// other processes may wait for it, and it runs with a zero gradient of the loss. The loss is one floating-point
  /// number that requires gradients; otherwise ShapeError, DTypeError or AutogradError is raised. A negative or not
  /// finite weight raises ValueError. Errors of `loss_of` and `schedule` get step and rank added to their text. A NaN
  /// or infinite loss raises NonFiniteError: the forward is repeated with the same random numbers, to name the op and
  /// its line. For a gradient the error names the parameter, and backward is repeated to name the op.
  std::optional<StepResult> step(const Callback<BatchLoss()>& loss_of, Location where = {});
  /// Makes a step from the waiting batches, with their weighted mean. Returns nothing if there are none.
  std::optional<StepResult> flush(Location where = {});

  /// Number of updates so far.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  /// Number of batches with gradients that wait for a step.
  int64_t waiting() const { return waiting_; }

 private:
  using Generators = std::vector<std::pair<Device, GeneratorState>>;
  BatchLoss forward(const Callback<BatchLoss()>& loss_of) const;
  void check_finite(const Tensor& loss, const Callback<BatchLoss()>& loss_of, Location where) const;
  void backward(const Callback<BatchLoss()>& loss_of, Location where);
  std::vector<Tensor> model_parameters() const;
  double units() const;
  double divisor_of_step(double own, double unit) const;
  void scale_waiting(double factor) const;
  void begin_anew();
  StepResult update(const Callback<void()>& explain, double factor, Location where);
  std::optional<double> norm_of_gradients(const Callback<void()>& explain, bool may_be_infinite, Location where);
  std::string name_of_bad_gradient() const;
  std::string place() const;
  void drop_gradients();

  nn::Module* model_;
  optim::Optimizer* optimizer_;
  StepOptions options_;
  int64_t steps_ = 0, waiting_ = 0;
  std::vector<Tensor> losses_;
  /// Weights of the losses, in units of the first positive one.
  std::vector<double> weights_;
  double unit_ = 0;
  /// States before the last forward.
  Generators generators_;
};

}  // namespace weft::train
