// One step of training in its order: backward of each batch, reduce, unscale, clip, optimizer, schedule, zero.
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
  /// How many batches make a step; its gradient is the mean of theirs by weight.
  int64_t accumulate = 1;
  /// The greatest joint norm of the gradients; 0 clips nothing.
  double clip_norm = 0;
  /// Forward passes run in mixed precision.
  std::optional<AutocastOptions> autocast = {};
  /// Scales losses, and passes over steps whose gradients are not finite. It must outlive the stepper.
  optim::GradScaler* scaler = nullptr;
  /// Those that the optimizer steps in place of the model's 16-bit weights. They must outlive the stepper.
  optim::MasterWeights* masters = nullptr;
  /// A loss or a gradient that is not finite raises NonFiniteError before anything is updated. It waits for the device
  /// in every step.
  bool halt_on_nan = true;
  /// Between two steps the optimizer's state lies on the CPU, and a device's memory is for the forward and the
  /// backward.
  bool offload_optimizer = false;
  /// Called when the gradients of a step are complete, such as to sum them over processes.
  Callback<void()> reduce = {};
  /// With `reduce` to the mean over processes: the mean over them of a step's weights, of which it is given this
  /// process's, such as `[](double own) { return distributed::mean_weight(own); }`. Called before the last backward of
  /// a step, so that the gradients of processes count by their weights.
  Callback<double(double)> mean_weight = {};
  /// Called after each update, such as `[&] { rates.step(); }`.
  Callback<void()> schedule = {};
  /// Ends its step before the gradients are dropped. Its steps have the numbers of these, from 1.
  GradientRecorder* recorder = nullptr;
  /// Of this process, for errors.
  int64_t rank = 0;
};

struct StepResult {
  /// False where the scaler passed over the step, or all weights were 0; the count of steps then stays.
  bool updated;
  /// The mean loss of the batches by their weights.
  double loss;
  /// Before clipping; absent where nobody needed it.
  std::optional<double> grad_norm;
  /// The sum of the batches' weights.
  double weight = 0;
};

class WEFT_API Stepper {
 public:
  /// Model and optimizer must outlive it. ValueError for options out of range, and where no parameter of the optimizer
  /// is the model's or one of its masters.
  Stepper(nn::Module& model, optim::Optimizer& optimizer, StepOptions options = {}, Location where = {});

  /// Forward and backward of a batch; with the last one of a step, the step. `loss_of` returns the batch's mean loss,
  /// one floating number that requires gradients, and its weight, by default 1: ValueError for one that is negative or
  /// not finite; of the loss ShapeError, DTypeError or AutogradError. What it and `schedule`
  /// raise of Weft's errors and the standard's own gets step and rank into its text. A NaN or infinite loss is
  /// NonFiniteError: the forward runs once more, with the same random numbers, to name the op that made it and the op's
  /// line. One in the gradients names the parameter, and backward runs once more to name the op.
  std::optional<StepResult> step(const Callback<BatchLoss()>& loss_of, Location where = {});
  /// Makes a step of the batches that wait for more, the mean of those that are there by weight; nothing where there
  /// are none.
  std::optional<StepResult> flush(Location where = {});

  /// Updates so far.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  /// Batches whose gradients wait for a step.
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
  /// Of the losses, in units of the first one above 0.
  std::vector<double> weights_;
  double unit_ = 0;
  /// As they were before the last forward.
  Generators generators_;
};

}  // namespace weft::train
