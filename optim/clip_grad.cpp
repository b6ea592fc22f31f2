#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <unordered_set>

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
#include "../tensor/overlap.hpp"
#include "gradients-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::optim {

namespace {

void check_limit(const char* op, const char* what, double value, Location where) {
  if (value >= 0) return;
  raise<ValueError>({.op = op, .problem = mismatch_text(what, "at least 0", value)}, where);
}

void check_order(const char* op, double order, Location where) {
  if (order != 0 && !std::isnan(order)) return;
  raise<ValueError>({.op = op,
                     .problem = fmt::format("norm_type is {}: no scaling changes such a norm", order),
                     .remedy = "use 1, 2, infinity or another number"},
                    where);
}

Tensor widened(const Tensor& g) { return g.to(compute_type(g.dtype())); }

DType norm_type_of(const Tensor& g) {
  const DType real = is_complex(g.dtype()) ? real_type(g.dtype()) : g.dtype();
  return real == DType::f64 ? DType::f64 : DType::f32;  // f16 cannot represent norms above 65504
}

Tensor norm_of(const Tensor& g, double order, DType dtype, Location where) {
  const TensorOptions like{dtype, g.device()};
  if (g.numel() == 0)
    return full({}, order < 0 ? HUGE_VAL : 0.0, like, where);  // an empty gradient has no maximum or minimum
  return vector_norm(g, order, {}, false, is_complex(g.dtype()) ? std::nullopt : std::optional(dtype), where);
}

struct Gradient {
  Tensor parameter, values;
  size_t number;  ///< index of the parameter in the caller's list
};

// The gradients of the parameters, without duplicates.
std::vector<Gradient> gradients_of(const char* op, std::span<const Tensor> parameters, Location where) {
  std::unordered_set<const TensorImpl*> seen;
  std::vector<Gradient> out;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = checked(parameters[i], op, where);
    if (!seen.insert(p.impl()).second) continue;
    if (Tensor g = weft::detail::gradient_values(p); g.defined()) out.push_back({p, std::move(g), i});
  }
  return out;
}

std::vector<Tensor> values_of(const std::vector<Gradient>& gradients) {
  std::vector<Tensor> out;
  for (const Gradient& g : gradients) out.push_back(g.values);
  return out;
}

// Replaces gradients with shared memory by copies, so that each element is scaled once. Memory may be shared within a
// gradient or with an earlier one.
void separate(std::vector<Gradient>& gradients, Location where) {
  std::map<const std::byte*, const std::byte*> ranges;  // end address by start address
  const auto is_new = [&](const Tensor& g) {
    const View view = g.raw_view();
    if (view.data == nullptr || g.numel() == 0) return true;
    if (may_overlap(view.layout)) return !overlaps(view.layout);
    const auto* const begin = static_cast<const std::byte*>(view.data);
    const auto* const end = begin + (g.is_contiguous() ? g.numel() * g.itemsize() : 1);
    const auto next = ranges.lower_bound(begin);
    if (next != ranges.end() && next->first < end) return false;
    if (next != ranges.begin() && std::prev(next)->second > begin) return false;
    ranges.emplace(begin, end);
    return true;
  };
  for (Gradient& g : gradients) {
    if (is_new(g.values)) continue;
    g.values = g.values.clone(where);
    g.parameter.set_grad(g.values);
  }
}

struct Norms {
  Tensor total;
  std::vector<Tensor> norms;
};

// Norms of the tensors times `shrink`.
Norms norms_of(const char* op, const std::vector<Tensor>& tensors, double order, Location where, double shrink = 1) {
  if (std::isnan(order)) raise<ValueError>({.op = op, .problem = "norm_type is NaN"}, where);
  const NoGradGuard unrecorded;
  const auto is_wide = [](const Tensor& g) { return norm_type_of(g) == DType::f64; };
  const DType dtype = std::ranges::any_of(tensors, is_wide) ? DType::f64 : DType::f32;
  Norms all;
  for (const Tensor& g : tensors) {
    const DType own = norm_type_of(g);
    Tensor length = shrink == 1 ? norm_of(g, order, own, where) : norm_of(widened(g) * shrink, order, own, where);
    all.norms.push_back(length.to(dtype, where).to(tensors[0].device(), where));
  }
  // For order 0, the number of nonzero elements is the sum of the tensors' counts.
  all.total =
      all.norms.empty() ? tensor(0.0) : norm_of(stack(all.norms, 0, where), order == 0 ? 1 : order, dtype, where);
  return all;
}

void require_finite(const char* op, const Norms& all, std::span<const Gradient> gradients, Location where) {
  const double total = all.total.item<double>(where);
  if (std::isfinite(total)) return;
  std::string details = "each norm is finite, their sum is not";
  for (size_t k = 0; k < all.norms.size(); ++k) {
    const double length = all.norms[k].item<double>(where);
    if (std::isfinite(length)) continue;
    details = fmt::format("the first: {} in that of parameter {}, {}", length, gradients[k].number,
                          describe(gradients[k].values));
    break;
  }
  raise<ValueError>({.op = op,
                     .problem = fmt::format("the norm of the gradients is {}", total),
                     .details = details,
                     .remedy = "AnomalyGuard names the op that made it; nothing was clipped"},
                    where);
}

// Whether the host may read the norm. On a device, and while a step is recorded, short gradients are multiplied by 1
// instead.
bool may_look(const Tensor& total) { return total.device().is_cpu() && weft::detail::capture_recorder == nullptr; }

// 16-bit floats are multiplied in f32, to keep the precision of a small factor.
void multiply(const Tensor& g, const Tensor& factor, Location where) {
  const Tensor on_device = factor.to(g.device(), where);
  if (compute_type(g.dtype()) == g.dtype()) g.mul_(Operand(on_device.to(g.dtype(), where), where));
  else g.copy_(mul(widened(g), Operand(on_device, where)), where);
}

// Scales the gradients, with norm `total`, to a norm of at most `max_norm`. `shrunk` returns the norm of the gradients
// times 2^-64.
void scale_to(std::vector<Gradient>& gradients, double max_norm, Tensor total, const std::function<Tensor()>& shrunk,
              Location where) {
  const bool looks = may_look(total);
  double shrink = 1;
  // A large norm makes the factor imprecise, and an infinite norm of finite elements makes it 0.
  if (looks && total.item<double>(where) >= 0x1p64) {
    if (const Tensor less = shrunk(); std::isfinite(less.item<double>(where))) {
      total = less;
      shrink = 0x1p-64;
    }
  }
  const Tensor factor = clip(Operand(max_norm * shrink / (total + 1e-6 * shrink), where), {}, Scalar(1.0));
  if (looks && factor.item<double>(where) == 1) return;
  separate(gradients, where);
  const Tensor once = shrink == 1 ? factor : max_norm / (total + 1e-6 * shrink);
  for (const Gradient& g : gradients) {
    if (shrink != 1) g.values.mul_(Operand(shrink, where));
    multiply(g.values, once, where);
  }
}

}  // namespace

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, ClipNormOptions options, Location where) {
  constexpr const char* op = "clip_grad_norm_";
  check_limit(op, "max_norm", max_norm, where);
  check_order(op, options.norm_type, where);
  std::vector<Gradient> gradients = gradients_of(op, parameters, where);
  const Norms all = norms_of(op, values_of(gradients), options.norm_type, where);
  const Tensor& total = all.total;
  if (gradients.empty()) return total;
  const NoGradGuard unrecorded;
  if (options.error_if_nonfinite) require_finite(op, all, gradients, where);
  if (auto* const watch = weft::detail::program_watch;
      WEFT_UNLIKELY(watch != nullptr) && may_look(total) && !(total.item<double>() + 1e-6 <= max_norm)) {
    const weft::detail::UnwatchedScope own;
    watch->clipped(total.item<double>(), max_norm, where);
  }
  const auto shrunk = [&] { return norms_of(op, values_of(gradients), options.norm_type, where, 0x1p-64).total; };
  scale_to(gradients, max_norm, total, shrunk, where);
  return total;
}

void clip_grads_with_norm_(std::span<const Tensor> parameters, double max_norm, const Tensor& total_norm,
                           Location where) {
  constexpr const char* op = "clip_grads_with_norm_";
  check_limit(op, "max_norm", max_norm, where);
  if (checked(total_norm, op, where).numel() != 1 || !is_floating(total_norm.dtype())) {
    raise<ValueError>(
        {.op = op, .problem = mismatch_text("total_norm", "one floating-point number", describe(total_norm))}, where);
  }
  std::vector<Gradient> gradients = gradients_of(op, parameters, where);
  const NoGradGuard unrecorded;
  if (gradients.empty()) return;
  const Tensor total = total_norm.detach().reshape(Dims());
  scale_to(
      gradients, max_norm, total, [&] { return total * 0x1p-64; }, where);
}

Tensor total_norm(std::span<const Tensor> tensors, double norm_type, bool error_if_nonfinite, Location where) {
  constexpr const char* op = "total_norm";
  std::vector<Gradient> given;
  for (size_t i = 0; i < tensors.size(); ++i) given.push_back({tensors[i], checked(tensors[i], op, where), i});
  const Norms all = norms_of(op, values_of(given), norm_type, where);
  if (error_if_nonfinite) require_finite(op, all, given, where);
  return all.total;
}

Tensor total_grad_norm(std::span<const Tensor> parameters, double norm_type, Location where) {
  constexpr const char* op = "total_grad_norm";
  return norms_of(op, values_of(gradients_of(op, parameters, where)), norm_type, where).total;
}

void clip_grad_value_(std::span<const Tensor> parameters, double max_value, Location where) {
  constexpr const char* op = "clip_grad_value_";
  check_limit(op, "max_value", max_value, where);
  std::vector<Gradient> gradients = gradients_of(op, parameters, where);
  for (const Gradient& g : gradients) {
    if (!is_complex(g.values.dtype())) continue;
    raise<DTypeError>({.op = op,
                       .problem = fmt::format("the gradient of parameter {} is complex", g.number),
                       .remedy = "clip_grad_norm_ takes complex gradients"},
                      where);
  }
  const NoGradGuard unrecorded;
  separate(gradients, where);
  for (const Gradient& g : gradients) {
    minimum_(g.values, Operand(max_value, where));
    maximum_(g.values, Operand(-max_value, where));
  }
}

namespace detail {

double gradient_length(std::span<const Tensor> parameters) {
  constexpr const char* op = "total_grad_norm";
  const std::vector<Tensor> values = values_of(gradients_of(op, parameters, {}));
  const double length = norms_of(op, values, 2, {}).total.item<double>();
  return std::isinf(length) ? norms_of(op, values, 2, {}, 0x1p-64).total.item<double>() * 0x1p64 : length;
}

void scale_gradients(std::span<const Tensor> parameters, double factor) {
  const NoGradGuard unrecorded;
  std::vector<Gradient> gradients = gradients_of("scale_gradients", parameters, {});
  separate(gradients, {});
  for (const Gradient& g : gradients) g.values.mul_(factor);
}

}  // namespace detail

}  // namespace weft::optim
