// Loss scaling for training in f16, whose small gradients would be rounded to zero.
//
//   optim::GradScaler scaler;
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);   // only where gradients are clipped or looked at
//   optim::clip_grad_norm_(model.parameters(), 1.0);
//   scaler.step(optimizer);       // passed over where a gradient is not finite
//   scaler.update();
//
// The scale grows while steps go well and falls when one was passed over (Micikevicius et al. 2018).
#pragma once

#include <cstdint>
#include <vector>

#include "../tensor/callback.hpp"
#include "../tensor/index.hpp"

namespace weft::optim {

class Optimizer;

struct GradScalerOptions {
  double init_scale = 65536;
  /// The scale is multiplied by it after `growth_interval` steps in a row.
  double growth_factor = 2;
  /// The scale is multiplied by it after a step that was passed over.
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  /// False makes every function do without scaling, so that a program needs no second form.
  bool enabled = true;
};

class WEFT_API GradScaler {
 public:
  /// ValueError for a scale that is not positive and finite, growth_factor <= 1, backoff_factor outside (0, 1) and
  /// growth_interval < 1.
  explicit GradScaler(GradScalerOptions options = {}, Location where = {});

  /// loss times the scale, recorded; in f32 where the loss is f16, which could not hold it.
  Tensor scale(const Tensor& loss, Location where = {}) const;
  /// Divides the gradients of the optimizer's parameters by the scale, in place, and notes whether all are finite. Once
  /// between two updates, else ValueError; ValueError for gradients in f16, which would underflow, and where there are
  /// none. Waits for a device.
  void unscale_(Optimizer& optimizer, Location where = {});
  /// optimizer.step() if all gradients are finite, after unscale_ where that was not called; whether it stepped. Once
  /// between two updates, else ValueError.
  bool step(Optimizer& optimizer, Location where = {});
  /// The same with `update` in place of optimizer.step(), such as one with a closure.
  bool step(Optimizer& optimizer, const Callback<void()>& update, Location where = {});
  /// Ends the iteration and adapts the scale. ValueError where no gradients were unscaled since the last.
  void update(Location where = {});

  double get_scale() const { return options_.enabled ? scale_ : 1; }
  /// Whether a step was passed over since the last update.
  bool found_inf() const;
  const GradScalerOptions& options() const { return options_; }

  /// What a run that goes on needs besides the options.
  struct State {
    double scale;
    /// Steps in a row that went well.
    int64_t growth_tracker;
  };
  State state() const { return {scale_, growth_tracker_}; }
  /// ValueError for a scale that is not positive and finite, and a negative growth_tracker.
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
