#include "grad_scaler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "../autograd/gradient_rows.hpp"
#include "../autograd/mode.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/join.hpp"
#include "../ops/pointwise.hpp"
#include "../ops/reduce.hpp"
#include "../tensor/warning.hpp"
#include "optim.hpp"
#include "gradients-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::optim {

namespace {

void require(bool holds, const char* name, const char* expected, double value, Location where) {
  if (holds) return;
  raise<ValueError>({.op = "GradScaler", .problem = mismatch_text(name, expected, value)}, where);
}

void check_scale(double scale, Location where) {
  require(std::isfinite(scale) && scale > 0, "scale", "a finite number above 0", scale, where);
}

/// The gradients. Raises ValueError if there are none, because a step would silently do nothing.
std::vector<Tensor> gradients_of(const Optimizer& optimizer, Location where) {
  std::vector<Tensor> out;
  bool any = false;
  for (const Tensor& p : optimizer.parameters()) {
    const Tensor g = weft::detail::gradient_values(p);
    any = any || g.defined();
    if (g.defined() && g.numel() > 0) out.push_back(g);
  }
  if (!any) {
    raise<ValueError>({.op = "GradScaler",
                       .problem = "no parameter of the optimizer has a gradient",
                       .remedy = "call backward() before, and with MasterWeights take_gradients()"},
                      where);
  }
  return out;
}

// The maximum absolute value is NaN or infinite if any element is.
bool all_finite(const std::vector<Tensor>& gradients, Location where) {
  std::vector<Tensor> largest;
  for (const Tensor& g : gradients) {
    const Tensor norm = vector_norm(g, std::numeric_limits<double>::infinity(), {}, false, {}, where);
    largest.push_back(norm.to(f64, where).to(gradients[0].device(), where));
  }
  return largest.empty() || std::isfinite(sum(stack(largest, 0, where)).item<double>(where));
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options, Location where) : options_(options), scale_(options.init_scale) {
  check_scale(options.init_scale, where);
  require(options.growth_factor > 1 && std::isfinite(options.growth_factor), "growth_factor", "a finite number above 1",
          options.growth_factor, where);
  require(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor", "a number in (0, 1)",
          options.backoff_factor, where);
  require(options.growth_interval >= 1, "growth_interval", "at least 1", static_cast<double>(options.growth_interval),
          where);
}

Tensor GradScaler::scale(const Tensor& loss, Location where) const {
  if (!options_.enabled) return checked(loss, "GradScaler::scale", where);
  const CallScope call("GradScaler::scale", where);
  const Tensor& given = checked(loss);
  return (given.dtype() == DType::f16 ? given.to(f32) : given) * scale_;
}

GradScaler::Unscaled* GradScaler::find(const Optimizer& optimizer) {
  const auto found = std::ranges::find(unscaled_, &optimizer, &Unscaled::optimizer);
  return found == unscaled_.end() ? nullptr : &*found;
}

GradScaler::Unscaled& GradScaler::unscale(Optimizer& optimizer, Location where) {
  const std::vector<Tensor> gradients = gradients_of(optimizer, where);
  for (const Tensor& g : gradients) {
    if (g.dtype() != DType::f16) continue;
    raise<ValueError>({.op = "GradScaler",
                       .problem = "a gradient is float16, and would underflow when the scale is taken out of it",
                       .details = describe(g),
                       .remedy = "keep the parameters in float32 and compute under AutocastGuard(f16)"},
                      where);
  }
  const NoGradGuard unrecorded;
  unscaled_.reserve(unscaled_.size() + 1);
  const bool finite = all_finite(gradients, where);
  detail::scale_gradients(optimizer.parameters(), 1 / scale_);
  return unscaled_.emplace_back(Unscaled{&optimizer, !finite, false});
}

void GradScaler::unscale_(Optimizer& optimizer, Location where) {
  if (!options_.enabled) return;
  if (find(optimizer) != nullptr) {
    raise<ValueError>({.op = "GradScaler::unscale_",
                       .problem = "this optimizer's gradients were unscaled already since the last update()",
                       .remedy = "call unscale_ at most once before step, and update() after it"},
                      where);
  }
  unscale(optimizer, where);
}

bool GradScaler::step(Optimizer& optimizer, Location where) {
  return step(
      optimizer, [&] { optimizer.step(where); }, where);
}

bool GradScaler::step(Optimizer& optimizer, const Callback<void()>& update, Location where) {
  if (!options_.enabled) {
    update();
    return true;
  }
  Unscaled* known = find(optimizer);
  if (known != nullptr && known->stepped) {
    raise<ValueError>({.op = "GradScaler::step",
                       .problem = "this optimizer has stepped already since the last update()",
                       .remedy = "call update() after step"},
                      where);
  }
  const bool finite = !(known != nullptr ? *known : unscale(optimizer, where)).found_inf;
  if (finite) update();
  else optimizer.note_step();
  // Looked up again: the update may have stepped other optimizers, or ended the iteration.
  if (Unscaled* now = find(optimizer)) now->stepped = true;
  return finite;
}

bool GradScaler::found_inf() const { return std::ranges::any_of(unscaled_, &Unscaled::found_inf); }

void GradScaler::update(Location where) {
  if (!options_.enabled) return;
  if (unscaled_.empty()) {
    raise<ValueError>({.op = "GradScaler::update",
                       .problem = "no gradients were unscaled since the last update()",
                       .remedy = "call step(optimizer) before"},
                      where);
  }
  if (found_inf()) {
    const double least = std::numeric_limits<float>::min();
    scale_ = std::max(scale_ * options_.backoff_factor, least);
    growth_tracker_ = 0;
    if (scale_ < 1) {
      warn({.op = "GradScaler::update",
            .problem = fmt::format("the scale has fallen to {}: gradients are not finite at any scale", scale_),
            .remedy = "AnomalyGuard names the op that makes them so"},
           where);
    }
  } else if (++growth_tracker_ >= options_.growth_interval) {
    const double grown = scale_ * options_.growth_factor;
    if (grown <= std::numeric_limits<float>::max()) scale_ = grown;
    growth_tracker_ = 0;
  }
  unscaled_.clear();
}

void GradScaler::restore(State state, Location where) {
  check_scale(state.scale, where);
  require(state.growth_tracker >= 0, "growth_tracker", "at least 0", static_cast<double>(state.growth_tracker), where);
  scale_ = state.scale;
  growth_tracker_ = state.growth_tracker;
  unscaled_.clear();
}

}  // namespace weft::optim
