#include "../reduce.hpp"

#include <algorithm>
#include <cmath>

#include "../complex.hpp"
#include "../create.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../detail/autocast.hpp"
#include "../detail/complex.hpp"
#include "../detail/reducing.hpp"
#include "../../tensor/capture_recorder.hpp"

namespace weft {

Reduced reduced(const Tensor& x, const Dims& dims, bool keepdim) {
  const int rank = x.dim();
  bool gone[max_rank] = {};
  for (const int64_t d : dims) {
    const int dim = wrap_dim(d, rank);
    if (std::exchange(gone[dim], true)) {
      raise<ValueError>({.problem = fmt::format("dimension {} is named twice in {}", d, dims.text())});
    }
  }
  Reduced to;
  for (int i = 0; i < rank; ++i) {
    const int64_t size = x.sizes()[i];
    const bool reduce_this = dims.empty() || gone[i];
    if (reduce_this) to.count *= size;
    to.kept.push_back(reduce_this ? 1 : size);
    if (keepdim || !reduce_this) to.shape.push_back(to.kept[i]);
  }
  return to;
}

Dims reduced_dims(const Dims& kept) {
  Dims dims;
  for (int i = 0; i < kept.size(); ++i) {
    if (kept[i] == 1) dims.push_back(i);
  }
  return dims;
}

View reshaped_view(const View& contiguous, std::span<const int64_t> sizes) {
  View out;
  out.data = contiguous.data;
  Layout& layout = out.layout;
  layout.dtype = contiguous.layout.dtype;
  layout.device_type = contiguous.layout.device_type;
  layout.device_index = contiguous.layout.device_index;
  layout.host_scalar = contiguous.layout.host_scalar;
  layout.numel = contiguous.layout.numel;
  layout.rank = static_cast<uint8_t>(sizes.size());
  int64_t stride = itemsize(layout.dtype);
  for (int i = layout.rank - 1; i >= 0; --i) {
    layout.sizes[i] = sizes[i];
    layout.strides[i] = stride;
    stride *= sizes[i];
  }
  return out;
}

Tensor with_shape(const Tensor& contiguous, std::span<const int64_t> sizes) {
  const View view = reshaped_view(contiguous.raw_view(), sizes);
  return Tensor::adopt(detail::new_alias(contiguous.impl(), view.layout, view.data));
}

namespace {

/// Adds the columns of `parts`, rows of `columns` real numbers, up in double.
Tensor sum_of_columns(const Tensor& parts, int64_t first, int64_t rows, int64_t columns) {
  View view = reshaped_view(parts.raw_view(), Dims{rows, columns});
  view.layout.numel = rows * columns;
  view.data = static_cast<char*>(view.data) + first * itemsize(parts.dtype());
  Tensor out = make(Dims{1, columns}, DType::f64, parts.device());
  WEFT_KERNEL(reduce, parts)(Reduction::sum, out.raw_view(), view);
  return out;
}

/// The sum of all numbers of dense memory on the CPU: numbers side by side are columns, which are read once, and not
/// part after part.
complex128 sum_of_all(const Tensor& x) {
  constexpr int64_t side_by_side = 32;
  const NoGradGuard unrecorded;
  const Tensor parts = view_as_real(x);
  const int64_t rows = x.numel() / side_by_side, rest = x.numel() % side_by_side;
  const Tensor columns = sum_of_columns(parts, 0, rows, 2 * side_by_side);
  const Tensor head = sum_of_columns(columns, 0, side_by_side, 2);
  const Tensor tail = sum_of_columns(parts, 2 * rows * side_by_side, rest, 2);
  const auto* a = static_cast<const double*>(head.raw_view().data);
  const auto* b = static_cast<const double*>(tail.raw_view().data);
  return {a[0] + b[0], a[1] + b[1]};
}

}  // namespace

Tensor run_reduce(Reduction reduction, const Tensor& x, const Reduced& to, DType dtype) {
  if (reduction != Reduction::sum && reduction != Reduction::mean) refuse_complex(x);
  Tensor out = make(to.shape, dtype, x.device());
  if (is_complex(dtype) && to.count == x.numel() && x.numel() >= 4096 && x.device().is_cpu() && x.is_contiguous() &&
      detail::capture_recorder == nullptr) {
    const complex128 sum = sum_of_all(x);
    const double divisor = reduction == Reduction::mean ? static_cast<double>(to.count) : 1;
    const complex128 result(sum.re / divisor, sum.im / divisor);
    if (dtype == DType::c128) *static_cast<complex128*>(out.raw_view().data) = result;
    else
      *static_cast<complex64*>(out.raw_view().data) =
          complex64(static_cast<float>(result.re), static_cast<float>(result.im));
    return out;
  }
  const auto kernel = WEFT_KERNEL(reduce, x);
  each_part(reshaped_view(out.raw_view(), to.kept), x.raw_view(),
            [&](const View& sum, const View& part) { kernel(reduction, sum, part); });
  return out;
}

namespace {

bool is_wider_float(DType to, DType from) {
  return is_floating(from) && is_floating(to) && !is_storage_only(from) && itemsize(to) > itemsize(from);
}
// Kernels widen as they sum; any other change of dtype is a conversion of its own.
Tensor in_sum_type(const Tensor& x, DType wanted) {
  if (WEFT_LIKELY(wanted == x.dtype())) return x;
  const bool whole = is_integer(wanted) && (is_integer(x.dtype()) || x.dtype() == DType::boolean);
  const bool direct = is_wider_float(wanted, x.dtype()) || (whole && itemsize(wanted) == 8);
  return direct ? x : x.to(wanted);
}

// The gradient of a sum, scaled: g repeated over the reduced dimensions.
struct SpreadBackward {
  Dims sizes, kept;
  DType dtype;
  double divisor;
  Tensor operator()(Tensor&& g) {
    Tensor share = divisor == 1 ? std::move(g) : std::move(g) / divisor;
    return restore_dims(share.to(dtype), kept).expand(sizes);
  }
};

Tensor sum_like(Reduction reduction, const Tensor& operand, const Dims& dims, bool keepdim, DType wanted) {
  const Reduced to = reduced(operand, dims, keepdim);
  const Tensor x = in_sum_type(operand, wanted);
  Tensor out = run_reduce(reduction, x, to, wanted);
  if (should_record(x)) {
    const double divisor = reduction == Reduction::mean ? static_cast<double>(to.count) : 1;
    record(out, SpreadBackward{x.shape(), to.kept, x.dtype(), divisor}, x);
  }
  return out;
}

// The dimensions that are reduced, moved to the end and merged: [rows, n].
Tensor rows_of(const Tensor& x, const Dims& kept) {
  Dims order;
  int64_t rows = 1;
  for (const bool last : {false, true}) {
    for (int i = 0; i < x.dim(); ++i) {
      if ((kept[i] == 1) != last) continue;
      if (!last) rows *= kept[i];
      order.push_back(i);
    }
  }
  return x.permute(order).reshape({rows, x.numel() / std::max<int64_t>(rows, 1)});
}

// By pairs, by ops that are recorded.
Tensor complex_prod(const Tensor& x, const Reduced& to) {
  if (x.numel() == 0) return sum(x, reduced_dims(to.kept), true).reshape(to.shape) + 1;
  Tensor left = rows_of(x, to.kept);
  while (left.size(1) > 1) {
    const int64_t n = left.size(1), half = n / 2;
    const Tensor pairs = left.narrow(1, 0, half) * left.narrow(1, half, half);
    left = n % 2 == 0 ? pairs : cat({pairs, left.narrow(1, n - 1, 1)}, 1);
  }
  return left.reshape(to.shape);
}

// [rows, n] → the product of each row without the element itself.
Tensor products_of_others(const Tensor& x) {
  const int64_t rows = x.sizes()[0], n = x.sizes()[1];
  const Tensor own = eye(n, n, {DType::boolean, x.device()});
  const Tensor repeated = x.unsqueeze(1).expand({rows, n, n});
  return prod(masked_fill(repeated, own, 1), 2);
}

// The same over any dimensions: they are moved to the end and merged.
Tensor products_of_others(const Tensor& x, const Dims& kept) {
  Dims order, back = Dims::filled(x.dim(), 0), moved;
  int64_t rows = 1;
  for (const bool last : {false, true}) {
    for (int i = 0; i < x.dim(); ++i) {
      if ((kept[i] == 1) != last) continue;
      if (!last) rows *= kept[i];
      back[i] = order.size();
      order.push_back(i);
      moved.push_back(x.sizes()[i]);
    }
  }
  const Tensor merged = x.permute(order).reshape({rows, x.numel() / std::max<int64_t>(rows, 1)});
  return products_of_others(merged).reshape(moved).permute(back);
}

// Products of the other elements where some are zero, without differentiating further.
Tensor products_past_zeros(const Tensor& x, const Tensor& y, const Dims& kept) {
  const Dims dims = reduced_dims(kept);
  const Tensor zero = x == 0;
  const Tensor zeros = sum(zero, dims, true);
  const Tensor rest = prod(masked_fill(x, zero, 1), dims, true);
  const Tensor lone = logical_and(zero, zeros == 1);
  return weft::where(lone, rest, weft::where(zero, 0.0, y / x));
}

// Does not wait for a device or read values in a recorded step; there zeros are assumed possible. The recorded form for
// zeros costs the square of the elements.
bool has_zeros(const Tensor& x) {
  if ((!x.device().is_cpu() && !recording()) || detail::capture_recorder != nullptr) return true;
  return !all(x).item<bool>();
}

struct ProdBackward {
  Saved input;
  SavedOutput output;
  Dims kept;
  Tensor operator()(Node& self, Tensor&& gradient) {
    const Tensor& x = input.get(self);
    const Tensor y = restore_dims(output.get(self), kept);
    const Tensor g = restore_dims(gradient, kept);
    const bool zeros = !is_meta(x) && has_zeros(x);
    Tensor dx;
    if (!zeros) {
      dx = g * y / x;
    } else {
      const Tensor others = recording() ? products_of_others(x, kept) : products_past_zeros(x, y, kept);
      dx = others * g;
    }
    return dx.to(x.dtype());
  }
};

Tensor variance_gradient(const Tensor& gradient, const Tensor& x, const Dims& kept, double divisor) {
  const Tensor wide = to_compute_type(x);
  const Tensor g = restore_dims(gradient, kept);
  return ((wide - mean(wide, reduced_dims(kept), true)) * (g * (2 / divisor))).to(x.dtype());
}

struct VarianceBackward {
  Saved input;
  Dims kept;
  double divisor;
  Tensor operator()(Node& self, Tensor&& g) { return variance_gradient(g, input.get(self), kept, divisor); }
};

// g / y where y is not 0, else 0; also when differentiated again.
Tensor quotient_or_zero(const Tensor& g, const Tensor& y) {
  const Tensor none = y == 0;
  const Tensor safe = masked_fill(y, none, 1);
  return masked_fill(g / safe, none, 0);
}

struct DeviationBackward {
  Saved input;
  SavedOutput output;
  Dims kept;
  double divisor;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor y = output.get(self);
    const Tensor half = std::move(g) * 0.5;
    return variance_gradient(quotient_or_zero(half, y), input.get(self), kept, divisor);
  }
};

// In `dtype`, unrecorded; by ops where the device has no kernel.
Tensor run_variance(const Tensor& x, const Reduced& to, double correction, double divisor, DType dtype) {
  if (const auto kernel = kernels(x.raw_view()).variance; WEFT_LIKELY(kernel != nullptr)) {
    Tensor out = make(to.shape, dtype, x.device());
    kernel(reshaped_view(out.raw_view(), to.kept), x.raw_view(), correction);
    return out;
  }
  NoGradGuard unrecorded;
  const Tensor wide = to_compute_type(x);
  const Dims dims = reduced_dims(to.kept);
  const Tensor total = sum(square(wide - mean(wide, dims, true)), dims, true);
  return with_shape((total / divisor).to(dtype), to.shape);
}

bool is_finite(const Tensor& t) {
  const auto all = [&]<class T>(T) {
    const auto* const values = static_cast<const T*>(t.raw_view().data);
    return std::all_of(values, values + t.numel(), [](T v) { return std::isfinite(v); });
  };
  if (t.dtype() == DType::f64) return all(0.0);
  return t.dtype() == DType::f32 ? all(0.0F) : weft::all(isfinite(t)).item<bool>();
}

// Powers of two near the largest elements: squares of quotients by them are in range.
Tensor scale_of(const Tensor& x, const Reduced& to) {
  const Dims dims = reduced_dims(to.kept);
  return power_of_two_near(maximum(amax(x, dims, true), -amin(x, dims, true)));
}

// As run_variance; scaled where a sum of squares left the range, as far as that is known without waiting. The kernels
// of devices scale.
Tensor run_variance_in_range(const Tensor& x, const Reduced& to, double correction, double divisor) {
  Tensor out = run_variance(x, to, correction, divisor, x.dtype());
  const bool looks = x.device().is_cpu() && detail::capture_recorder == nullptr;
  if (!looks || x.dtype() == DType::f16 || !(divisor > 0) || is_finite(out)) return out;
  const NoGradGuard unrecorded;
  const Tensor wide = to_compute_type(x), scale = scale_of(wide, to);
  const Tensor scaled = run_variance(wide / scale, to, correction, divisor, wide.dtype());
  const Tensor factor = scale.reshape(to.shape);
  return (scaled * factor * factor).to(x.dtype());
}

// The root of the variance, which itself may be beyond the range of a dtype that holds the root.
Tensor run_deviation(const Tensor& x, const Reduced& to, double correction, double divisor) {
  const NoGradGuard unrecorded;
  const auto root = [&](const Tensor& t) {
    const Tensor variance = run_variance(t, to, correction, divisor, compute_type(x.dtype()));
    return std::pair(sqrt(variance), has_digits(variance));
  };
  const bool in_range = x.dtype() == DType::f16 || !(divisor > 0) || is_meta(x);
  const bool looks = x.device().is_cpu() && detail::capture_recorder == nullptr;
  if (in_range || looks) {
    const auto [deviation, has_all_digits] = root(x);
    if (in_range || has_all_digits) return deviation.to(x.dtype());
  }
  const Tensor wide = to_compute_type(x), scale = scale_of(wide, to);
  return (root(wide / scale).first * scale.reshape(to.shape)).to(x.dtype());
}

// Powers of two near the largest parts of complex numbers, unrecorded; squares of quotients by them are in range.
Tensor scale_of_parts(const Tensor& x, const Reduced& to) {
  const NoGradGuard unrecorded;
  if (x.numel() == 0) return ones(to.kept, {real_type(x.dtype()), x.device()});
  return power_of_two_near(amax(maximum(abs(real(x)), abs(imag(x))), reduced_dims(to.kept), true));
}

double variance_divisor(const Reduced& to, double correction) {
  return std::max(0.0, static_cast<double>(to.count) - correction);
}

struct LogSumExpBackward {
  Saved input;
  SavedOutput output;
  Dims kept;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor y = restore_dims(output.get(self), kept);
    // Over -inf alone no element has a share.
    const Tensor none = y == -__builtin_inf();
    const Tensor safe = masked_fill(y, none, 0);
    return exp(input.get(self) - safe) * restore_dims(g, kept);
  }
};

// The largest element along the reduced dimensions, 0 where that is infinite or there is none.
Tensor finite_peak(const Tensor& x, const Reduced& to) {
  const NoGradGuard unrecorded;
  if (x.numel() == 0) return zeros(to.kept, {x.dtype(), x.device()});
  const Tensor peak = amax(x, reduced_dims(to.kept), true);
  return masked_fill(peak, isinf(peak), 0);
}

Tensor log_sum_exp_complex(const Tensor& x, const Reduced& to) {
  const Tensor peak = finite_peak(real(x), to);
  return (log(sum(exp(x - peak), reduced_dims(to.kept), true)) + peak).reshape(to.shape);
}

Tensor run_logsumexp(const Tensor& x, const Reduced& to) {
  NoGradGuard unrecorded;
  const Dims dims = reduced_dims(to.kept);
  const Tensor peak = finite_peak(x, to);
  return with_shape(log(sum(exp(x - peak), dims, true)) + peak, to.shape);
}

Tensor truth(Reduction reduction, const Tensor& given, const Dims& dims, bool keepdim) {
  const Tensor x = is_complex(checked(given).dtype()) ? given.to(DType::boolean) : given;
  return run_reduce(reduction, x, reduced(checked(x), dims, keepdim), DType::boolean);
}

}  // namespace

Tensor sum(const Tensor& x, Location where) { return sum(x, {}, false, {}, where); }
Tensor sum(const Tensor& x, const Dims& dims, bool keepdim, std::optional<DType> dtype, Location where) {
  const CallScope call("sum", where);
  WEFT_IN_FULL(sum, x, dims, keepdim, dtype, where);
  const DType wanted = sum_type(checked(x), dtype);
  return sum_like(Reduction::sum, x, dims, keepdim, wanted);
}

Tensor mean(const Tensor& x, Location where) { return mean(x, {}, false, {}, where); }
Tensor mean(const Tensor& x, const Dims& dims, bool keepdim, std::optional<DType> dtype, Location where) {
  const CallScope call("mean", where);
  const DType wanted = dtype.value_or(checked(x).dtype());
  if (!is_inexact(wanted) || is_storage_only(wanted)) {
    raise<DTypeError>(
        {.problem = fmt::format("the mean of a {} tensor as {} has no exact type", name(x.dtype()), name(wanted)),
         .remedy = "pass a floating dtype, such as weft::f32"});
  }
  return sum_like(Reduction::mean, x, dims, keepdim, wanted);
}

Tensor prod(const Tensor& x, Location where) { return prod(x, {}, false, {}, where); }
Tensor prod(const Tensor& operand, const Dims& dims, bool keepdim, std::optional<DType> dtype, Location where) {
  const CallScope call("prod", where);
  WEFT_IN_FULL(prod, operand, dims, keepdim, dtype, where);
  const DType wanted = sum_type(checked(operand), dtype);
  const Reduced to = reduced(operand, dims, keepdim);
  const Tensor x = in_sum_type(operand, wanted);
  if (WEFT_UNLIKELY(is_complex(wanted))) return complex_prod(x.to(product_type(wanted, x.device())), to).to(wanted);
  Tensor out = run_reduce(Reduction::prod, x, to, wanted);
  if (should_record(x)) record(out, ProdBackward{Saved(x), SavedOutput(out), to.kept}, x);
  return out;
}

Tensor any(const Tensor& x, Location where) { return any(x, {}, false, where); }
Tensor any(const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  const CallScope call("any", where);
  return truth(Reduction::any, x, dims, keepdim);
}
Tensor all(const Tensor& x, Location where) { return all(x, {}, false, where); }
Tensor all(const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  const CallScope call("all", where);
  return truth(Reduction::all, x, dims, keepdim);
}

Tensor var(const Tensor& x, Location where) { return var(x, {}, 1, false, where); }
Tensor var(const Tensor& x, const Dims& dims, double correction, bool keepdim, Location where) {
  const CallScope call("var", where);
  if (is_complex(checked(x).dtype())) {
    return var(real(x), dims, correction, keepdim) + var(imag(x), dims, correction, keepdim);
  }
  check_floating(x);
  const Reduced to = reduced(x, dims, keepdim);
  const double divisor = variance_divisor(to, correction);
  Tensor out = run_variance_in_range(x, to, correction, divisor);
  if (should_record(x)) record(out, VarianceBackward{Saved(x), to.kept, divisor}, x);
  return out;
}

Tensor std(const Tensor& x, Location where) { return weft::std(x, {}, 1, false, where); }
Tensor std(const Tensor& x, const Dims& dims, double correction, bool keepdim, Location where) {
  const CallScope call("std", where);
  if (is_complex(checked(x).dtype())) {
    const Tensor scale = scale_of_parts(x, reduced(x, dims, true));
    const Tensor variance = var(x / scale, dims, correction, keepdim), none = variance == 0;
    const Tensor root = masked_fill(sqrt(masked_fill(variance, none, 1)), none, 0);  // equal ones: the gradient is 0
    return root * scale.reshape(root.shape());
  }
  check_floating(x);
  const Reduced to = reduced(x, dims, keepdim);
  const double divisor = variance_divisor(to, correction);
  Tensor out = run_deviation(x, to, correction, divisor);
  if (should_record(x)) {
    record(out, DeviationBackward{Saved(x), SavedOutput(out), to.kept, divisor}, x);
  }
  return out;
}

Tensor logsumexp(const Tensor& operand, const Dims& dims, bool keepdim, Location where) {
  const CallScope call("logsumexp", where);
  WEFT_IN_FULL(logsumexp, operand, dims, keepdim, where);
  const DType dtype = checked(operand).dtype();
  if (is_complex(dtype)) return log_sum_exp_complex(operand, reduced(operand, dims, keepdim));
  const Tensor x = is_floating(dtype) ? to_compute_type(operand) : operand.to(default_dtype());
  const Reduced to = reduced(x, dims, keepdim);
  Tensor out = run_logsumexp(x, to);
  if (should_record(x)) record(out, LogSumExpBackward{Saved(x), SavedOutput(out), to.kept}, x);
  return is_floating(dtype) ? out.to(dtype) : out;
}

}  // namespace weft
