// Loss scaling for training in f16, in which small gradients would underflow to zero.
//
//   optim::GradScaler scaler;
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);   // only needed to clip or inspect gradients
//   optim::clip_grad_norm_(model.parameters(), 1.0);
//   scaler.step(optimizer);       // skipped if a gradient is not finite
//   scaler.update();
//
// The scale grows after successful steps and shrinks after a skipped one (Micikevicius et al. 2018).
#pragma once

#include <cstdint>
#include <vector>

#include "../tensor/callback.hpp"
#include "../tensor/index.hpp"

namespace weft::optim {

class Optimizer;

struct GradScalerOptions {
  double init_scale = 65536;
  /// Factor of the scale after `growth_interval` consecutive successful steps.
  double growth_factor = 2;
  /// Factor of the scale after a skipped step.
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  /// If false, all functions work without scaling, so that a program needs only one code path.
  bool enabled = true;
};

class WEFT_API GradScaler {
 public:
  /// Raises ValueError for a scale that is not positive and finite, growth_factor <= 1, backoff_factor outside (0, 1)
  /// and growth_interval < 1.
  explicit GradScaler(GradScalerOptions options = {}, Location where = {});

  /// loss * scale, recorded; in f32 for an f16 loss, because f16 would overflow. Layers with auxiliary losses need an
  /// nn::AuxiliaryLossScale(get_scale()) around backward, which train::Stepper sets.
  Tensor scale(const Tensor& loss, Location where = {}) const;
  /// Divides the gradients of the optimizer's parameters by the scale, in place, and checks whether all are finite.
  /// Waits for a device. May be called once between two updates. Raises ValueError for a second call, for gradients in
  /// f16, which would underflow, and if there are none.
  void unscale_(Optimizer& optimizer, Location where = {});
  /// Calls unscale_ if needed, and optimizer.step() if all gradients are finite; returns whether it stepped. May be
  /// called once between two updates; a second call raises ValueError.
  bool step(Optimizer& optimizer, Location where = {});
  /// As above, with `update` in place of optimizer.step(), such as a step with a closure.
  bool step(Optimizer& optimizer, const Callback<void()>& update, Location where = {});
  /// Ends the iteration and adapts the scale. Raises ValueError if no gradients were unscaled since the last update.
  void update(Location where = {});

  double get_scale() const { return options_.enabled ? scale_ : 1; }
  /// Whether a step was skipped since the last update.
  bool found_inf() const;
  const GradScalerOptions& options() const { return options_; }

  /// The state for resuming a run, in addition to the options.
  struct State {
    double scale;
    /// Number of consecutive successful steps.
    int64_t growth_tracker;
  };
  State state() const { return {scale_, growth_tracker_}; }
  /// Raises ValueError for a scale that is not positive and finite, and a negative growth_tracker.
  void restore(State state, Location where = {});

 private:
  struct Unscaled {
    const Optimizer* optimizer;
    bool found_inf, stepped;
  };
  Unscaled* find(const Optimizer& optimizer);
  Unscaled& unscale(Optimizer& optimizer, Location where);

  GradScalerOptions options_;
  double scale_;
  int64_t growth_tracker_ = 0;
  std::vector<Unscaled> unscaled_;
};

}  // namespace weft::optim
