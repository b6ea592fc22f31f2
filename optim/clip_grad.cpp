#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "../autograd/gradient_rows.hpp"
#include "../autograd/mode.hpp"
#include "../autograd/program_watch.hpp"
#include "optim.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/join.hpp"
#include "../ops/pointwise.hpp"
#include "../ops/reduce.hpp"

namespace weft::optim {

namespace {

void check_limit(const char* op, const char* what, double value, Location where) {
  if (value >= 0) return;
  raise<ValueError>({.op = op, .problem = fmt::format("{} is {}: it must not be negative", what, value)}, where);
}

// f16 holds no norm beyond 65504, and an infinite one would make zeros of all gradients.
Tensor norm_of(const Tensor& g, double order, Location where) {
  const DType wide = is_complex(g.dtype()) ? real_type(g.dtype()) : g.dtype() == DType::f64 ? DType::f64 : DType::f32;
  if (g.numel() == 0) return zeros({}, {wide, g.device()}, where);  // there is no largest of none
  return vector_norm(g, order, {}, false, wide, where);
}

struct Norms {
  Tensor total;
  std::vector<Tensor> gradients, norms;
  std::vector<size_t> numbers;  ///< which parameter each belongs to
};

Norms norms_of(const char* op, std::span<const Tensor> parameters, double order, Location where) {
  if (!(order > 0)) {
    raise<ValueError>({.op = op, .problem = fmt::format("norm_type is {}: it must be above 0, or infinity", order)},
                      where);
  }
  const NoGradGuard unrecorded;
  Norms all;
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor g = detail::gradient_values(checked(parameters[i], op, where));
    if (!g.defined()) continue;
    Tensor length = norm_of(g, order, where);
    if (!all.norms.empty()) length = length.to(all.norms[0].dtype(), where).to(all.norms[0].device(), where);
    all.norms.push_back(std::move(length));
    all.gradients.push_back(std::move(g));
    all.numbers.push_back(i);
  }
  all.total = all.norms.empty() ? tensor(0.0) : norm_of(stack(all.norms, 0, where), order, where);
  return all;
}

void require_finite(const Norms& all, Location where) {
  const double total = all.total.item<double>(where);
  if (std::isfinite(total)) return;
  std::string details = "each norm is finite, their sum is not";
  for (size_t k = 0; k < all.norms.size(); ++k) {
    const double length = all.norms[k].item<double>(where);
    if (std::isfinite(length)) continue;
    details =
        fmt::format("the first: {} in that of parameter {}, {}", length, all.numbers[k], describe(all.gradients[k]));
    break;
  }
  raise<ValueError>({.op = "clip_grad_norm_",
                     .problem = fmt::format("the norm of the gradients is {}", total),
                     .details = details,
                     .remedy = "AnomalyGuard names the op that made it; nothing was clipped"},
                    where);
}

}  // namespace

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, ClipNormOptions options, Location where) {
  check_limit("clip_grad_norm_", "max_norm", max_norm, where);
  const Norms all = norms_of("clip_grad_norm_", parameters, options.norm_type, where);
  const Tensor& total = all.total;
  if (all.norms.empty()) return total;
  NoGradGuard unrecorded;
  if (options.error_if_nonfinite) require_finite(all, where);
  const Tensor factor = clip(Operand(max_norm / (total + 1e-6), where), {}, Scalar(1.0));
  // On a device, or while a step is recorded, nobody looks: gradients that are short enough are multiplied by one.
  const bool may_look = total.device().is_cpu() && detail::step_recorder == nullptr;
  if (may_look && factor.item<double>() == 1) return total;
  if (auto* const watch = detail::program_watch; WEFT_UNLIKELY(watch != nullptr) && may_look) {
    const detail::UnwatchedScope own;
    watch->clipped(total.item<double>(), max_norm, where);
  }
  for (const Tensor& g : all.gradients) g.mul_(Operand(factor.to(g.device(), where).to(g.dtype(), where), where));
  return total;
}

Tensor total_grad_norm(std::span<const Tensor> parameters, double norm_type, Location where) {
  return norms_of("total_grad_norm", parameters, norm_type, where).total;
}

void clip_grad_value_(std::span<const Tensor> parameters, double max_value, Location where) {
  check_limit("clip_grad_value_", "max_value", max_value, where);
  for (const Tensor& p : parameters) checked(p, "clip_grad_value_", where);
  NoGradGuard unrecorded;
  for (const Tensor& p : parameters) {
    const Tensor g = detail::gradient_values(p);
    if (!g.defined()) continue;
    minimum_(g, Operand(max_value, where));
    maximum_(g, Operand(-max_value, where));
  }
}

}  // namespace weft::optim
