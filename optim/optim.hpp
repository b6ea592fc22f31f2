// Optimizers, gradient clipping and learning rates over time.
//
//   optim::AdamW optimizer(model.parameters(), {.lr = 3e-4});
//   optimizer.zero_grad();
//   loss.backward();
//   optimizer.step();
//
// A step is one fused kernel over all parameters where they are contiguous f32 or f64 on a device that has it, and the
// same arithmetic in tensor ops elsewhere; f16 and bf16 parameters are updated in f32, with f32 state. Nothing is
// recorded; every write raises the parameter's version. Parameters without a gradient are passed over.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../tensor/index.hpp"
#include "../tensor/pimpl.hpp"
#include "../tensor/step_recorder.hpp"

namespace weft::optim {

/// Parameters that share a learning rate and a weight decay.
struct Group {
  std::vector<Tensor> parameters;
  double lr;
  double weight_decay;
};

/// Settings of a group; those not given come from the optimizer's options.
struct GroupOptions {
  std::optional<double> lr = {}, weight_decay = {};
};

/// Base of all optimizers. Movable, but not copyable: copies would share part of their state.
class WEFT_API Optimizer {
 public:
  using StateDict = std::map<std::string, Tensor>;

  virtual ~Optimizer();
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;

  /// Updates every parameter that has a gradient. Where a kernel raises, its parameters' step counts stay as they were.
  virtual void step(Location where = {}) = 0;
  /// Drops the gradients: `.grad()` is undefined until the next backward.
  void zero_grad();

  /// More parameters. ValueError where there are none, where one is undefined, not a leaf, not floating or present
  /// already, and for a rate or decay that is negative or not finite.
  void add_group(std::vector<Tensor> parameters, GroupOptions options = {}, Location where = {});
  std::span<const Group> groups() const { return {groups_.data(), groups_.size()}; }
  /// All parameters, group by group.
  std::vector<Tensor> parameters() const;

  /// The first group's learning rate.
  double lr() const { return groups_.front().lr; }
  /// Sets the learning rate of all groups, or of one. ValueError unless finite and not negative; IndexError where there
  /// is no such group.
  void set_lr(double lr, Location where = {});
  void set_lr(double lr, size_t group, Location where = {});

  /// "AdamW", and the names of its state for each parameter besides the step: "exp_avg", "exp_avg_sq".
  const char* name() const { return name_; }
  std::span<const std::string> state_names() const { return state_names_; }

  /// State by number of the parameter, "3.exp_avg" and "3.step", and the learning rates, "group.0.lr"; names as in
  /// PyTorch. State tensors share memory with the optimizer. Parameters that were never updated are absent.
  StateDict state_dict() const;
  /// Copies the values in. ValueError for an unknown or missing name, ShapeError for another shape; nothing is changed
  /// then.
  void load_state_dict(const StateDict& values, Location where = {});

 protected:
  /// State of one parameter: `tensors` are named by `state_names`.
  struct State {
    int64_t steps = 0;
    std::vector<Tensor> tensors;
  };

  Optimizer(const char* name, std::vector<std::string> state_names, double lr, double weight_decay);
  /// Fresh state for a parameter: zeros in f64 for f64, else f32.
  void start(State& state, const Tensor& parameter) const;
  /// Called when state or parameters are other tensors now, so that cached views are stale.
  virtual void forget() = 0;
  /// Steps every group by a rule, as optim/fused-inl.hpp describes one.
  template <class Rule>
  void step_by(const Rule& rule, std::vector<typename Rule::Slot>& slots, Location where);

  const char* name_;
  std::vector<std::string> state_names_;
  std::vector<Group> groups_;
  std::vector<State> states_;
  GroupOptions defaults_;
  detail::RepeatOwner repeat_owner_;
};

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// p -= lr · b with b = momentum · b + (1 - dampening) · (g + weight_decay · p); the first b is the gradient itself.
/// `nesterov` steps along g + momentum · b (Sutskever et al. 2013). ValueError for negative options, and for nesterov
/// without momentum or with dampening.
class WEFT_API SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, SGDOptions options = {}, Location where = {});
  SGD(SGD&&) noexcept;
  SGD& operator=(SGD&&) noexcept;
  ~SGD() override;
  void step(Location where = {}) override;

 private:
  void forget() override;
  struct Cache;
  SGDOptions options_;
  detail::Pimpl<Cache> cache_;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

/// Adam (Kingma and Ba 2015) with bias correction; weight decay is added to the gradient.
/// ValueError for negative options and for a beta outside [0, 1).
class WEFT_API Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {}, Location where = {});
  Adam(Adam&&) noexcept;
  Adam& operator=(Adam&&) noexcept;
  ~Adam() override;
  void step(Location where = {}) override;

 protected:
  Adam(const char* name, bool decoupled, std::vector<Tensor> parameters, AdamOptions options, Location where);

 private:
  void forget() override;
  struct Cache;
  AdamOptions options_;
  bool decoupled_ = false;
  detail::Pimpl<Cache> cache_;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019): p shrinks by lr · weight_decay · p.
class WEFT_API AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, AdamWOptions options = {}, Location where = {});
};

struct ClipNormOptions {
  /// The order of the norm: above 0, infinity for the largest absolute value.
  double norm_type = 2;
  /// ValueError, before anything is scaled, where the norm is NaN or infinite. Waits for a device.
  bool error_if_nonfinite = false;
};
/// Scales all gradients in place so that their joint norm is at most `max_norm`, and returns the norm they had (0-d, on
/// the first one's device; no wait for a device). A norm that is not finite makes them NaN or zero, as in PyTorch.
/// Parameters without a gradient are passed over. ValueError for a negative `max_norm` and a `norm_type` of 0 or less.
WEFT_API Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, ClipNormOptions options = {},
                                Location where = {});

/// Limits every element of the gradients to ±max_value, in place; NaN stays. Parameters without a gradient are passed
/// over. ValueError for a `max_value` that is negative or NaN.
WEFT_API void clip_grad_value_(std::span<const Tensor> parameters, double max_value, Location where = {});

/// The rate of step `step` (from 0): rises linearly to `lr` in `warmup` steps, then falls as 1/√step (Vaswani et al.
/// 2017). It has no last step, so a run can always be continued. ValueError for warmup < 1.
WEFT_API double warmup_inverse_sqrt(int64_t step, double lr, int64_t warmup, Location where = {});

struct WarmupCosine {
  /// The highest rate, reached after `warmup` steps.
  double lr = 1e-3;
  int64_t warmup = 0;
  /// From this step on the rate is `minimum`.
  int64_t steps = 1000;
  double minimum = 0;
};
/// The rate of step `step` (from 0): linear from lr / warmup to lr, then half a cosine down to the minimum (Loshchilov
/// and Hutter 2017).
WEFT_API double warmup_cosine(int64_t step, const WarmupCosine& schedule);

}  // namespace weft::optim
