#include <weft/ops/reduce.hpp>

#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/detail/reducing.hpp>

namespace weft {

Reduced reduced(const Tensor& x, const Dims& dims, bool keepdim, const char* op, Location where) {
  const int rank = x.dim();
  bool gone[max_rank] = {};
  for (const int64_t d : dims) {
    const int dim = wrap_dim(d, rank, op, where);
    if (std::exchange(gone[dim], true)) {
      raise<ValueError>({.op = op, .problem = fmt::format("dimension {} is named twice in {}", d, dims.text())}, where);
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

View seen_as(const View& contiguous, std::span<const int64_t> sizes) {
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

Tensor relabelled(const Tensor& contiguous, std::span<const int64_t> sizes) {
  const View view = seen_as(contiguous.raw_view(), sizes);
  return Tensor::adopt(detail::new_alias(contiguous.impl(), view.layout, view.data));
}

Tensor run_reduce(Reduction reduction, const Tensor& x, const Reduced& to, DType dtype, const char* op,
                  Location where) {
  Tensor out = make(to.shape, dtype, x.device(), op, where);
  WEFT_KERNEL_FOR(reduce, x, op, where)(reduction, seen_as(out.raw_view(), to.kept), x.raw_view());
  return out;
}

namespace {

bool is_wider_float(DType to, DType from) {
  return is_floating(from) && is_floating(to) && !is_storage_only(from) && itemsize(to) > itemsize(from);
}
// Kernels widen as they sum; any other change of dtype is a conversion of its own.
Tensor in_sum_type(const Tensor& x, DType wanted, Location where) {
  if (WEFT_LIKELY(wanted == x.dtype())) return x;
  const bool direct =
      is_wider_float(wanted, x.dtype()) || (!is_floating(wanted) && !is_floating(x.dtype()) && itemsize(wanted) == 8);
  return direct ? x : x.to(wanted, where);
}

// The gradient of a sum, scaled: g repeated over what was reduced.
struct SpreadFormula {
  Dims sizes, kept;
  DType dtype;
  double divisor;
  Tensor operator()(Node& self, Tensor&& g) {
    const Location where = self.where;
    Tensor share = divisor == 1 ? std::move(g) : div(Operand(std::move(g), where), Operand(divisor, where));
    return put_back(share.to(dtype, where), kept, where).expand(sizes, where);
  }
};

Tensor sum_like(Reduction reduction, const char* op, const Tensor& operand, const Dims& dims, bool keepdim,
                DType wanted, Location where) {
  const Reduced to = reduced(operand, dims, keepdim, op, where);
  const Tensor x = in_sum_type(operand, wanted, where);
  Tensor out = run_reduce(reduction, x, to, wanted, op, where);
  if (should_record(x)) {
    const double divisor = reduction == Reduction::mean ? static_cast<double>(to.count) : 1;
    record(out, op, where, SpreadFormula{x.shape(), to.kept, x.dtype(), divisor}, x);
  }
  return out;
}

// [rows, n] → the product of each row without the element itself.
Tensor products_of_others(const Tensor& x, Location where) {
  const int64_t rows = x.sizes()[0], n = x.sizes()[1];
  const Tensor own = eye(n, n, {DType::boolean, x.device()}, where);
  const Tensor repeated = x.unsqueeze(1, where).expand({rows, n, n}, where);
  return prod(masked_fill(Operand(repeated, where), Operand(own, where), Operand(1, where)), {2}, false, {}, where);
}

// The same over any dimensions: they are moved to the end and merged.
Tensor products_of_others(const Tensor& x, const Dims& kept, Location where) {
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
  const Tensor merged = x.permute(order, where).reshape({rows, x.numel() / std::max<int64_t>(rows, 1)}, where);
  return products_of_others(merged, where).reshape(moved, where).permute(back, where);
}

// Products of the other elements where some are zero, without differentiating further.
Tensor products_past_zeros(const Tensor& x, const Tensor& y, const Dims& kept, Location where) {
  const Dims dims = reduced_dims(kept);
  const Tensor zero = eq(Operand(x, where), Operand(0, where));
  const Tensor zeros = sum(zero, dims, true, {}, where);
  const Tensor rest =
      prod(masked_fill(Operand(x, where), Operand(zero, where), Operand(1, where)), dims, true, {}, where);
  const Tensor lone = logical_and(Operand(zero, where), Operand(eq(Operand(zeros, where), Operand(1, where)), where));
  const Tensor quotient = div(Operand(y, where), Operand(x, where));
  const Tensor plain = weft::where(Operand(zero, where), Operand(0.0, where), Operand(quotient, where));
  return weft::where(Operand(lone, where), Operand(rest, where), Operand(plain, where));
}

struct ProdFormula {
  Saved input;
  SavedOutput output;
  Dims kept;
  Tensor operator()(Node& self, Tensor&& gradient) {
    const Location where = self.where;
    const Tensor& x = input.get(self);
    const Tensor y = put_back(output.get(self), kept, where);
    const Tensor g = put_back(gradient, kept, where);
    const bool zeros = x.device().type != DeviceType::meta && !all(x, where).item<bool>(where);
    Tensor dx;
    if (!zeros) {
      dx = div(Operand(mul(Operand(g, where), Operand(y, where)), where), Operand(x, where));
    } else {
      const Tensor others = recording() ? products_of_others(x, kept, where) : products_past_zeros(x, y, kept, where);
      dx = mul(Operand(others, where), Operand(g, where));
    }
    return dx.to(x.dtype(), where);
  }
};

Tensor variance_gradient(const Tensor& gradient, const Tensor& x, const Dims& kept, double divisor, Location where) {
  const Tensor wide = widened(x, where);
  const Tensor g = put_back(gradient, kept, where);
  Tensor centered = sub(Operand(wide, where), Operand(mean(wide, reduced_dims(kept), true, {}, where), where));
  const Tensor share = mul(Operand(g, where), Operand(2 / divisor, where));
  return mul(Operand(std::move(centered), where), Operand(share, where)).to(x.dtype(), where);
}

struct VarianceFormula {
  Saved input;
  Dims kept;
  double divisor;
  Tensor operator()(Node& self, Tensor&& g) { return variance_gradient(g, input.get(self), kept, divisor, self.where); }
};

// g / y where y is not 0, else 0; also when differentiated again.
Tensor quotient_or_zero(const Tensor& g, const Tensor& y, Location where) {
  const Tensor none = eq(Operand(y, where), Operand(0, where));
  const Tensor safe = masked_fill(Operand(y, where), Operand(none, where), Operand(1, where));
  return masked_fill(Operand(div(Operand(g, where), Operand(safe, where)), where), Operand(none, where),
                     Operand(0, where));
}

struct DeviationFormula {
  Saved input;
  SavedOutput output;
  Dims kept;
  double divisor;
  Tensor operator()(Node& self, Tensor&& g) {
    const Location where = self.where;
    const Tensor y = output.get(self);
    const Tensor half = mul(Operand(std::move(g), where), Operand(0.5, where));
    return variance_gradient(quotient_or_zero(half, y, where), input.get(self), kept, divisor, where);
  }
};

// Unrecorded; by ops where the device has no kernel.
Tensor run_variance(const Tensor& x, const Reduced& to, double correction, double divisor, const char* op,
                    Location where) {
  if (const auto kernel = kernels(x.raw_view()).variance; WEFT_LIKELY(kernel != nullptr)) {
    Tensor out = make(to.shape, x.dtype(), x.device(), op, where);
    kernel(seen_as(out.raw_view(), to.kept), x.raw_view(), correction);
    return out;
  }
  NoGradGuard unrecorded;
  const Tensor wide = widened(x, where);
  const Dims dims = reduced_dims(to.kept);
  const Tensor centered = sub(Operand(wide, where), Operand(mean(wide, dims, true, {}, where), where));
  const Tensor total = sum(square(Operand(centered, where)), dims, true, {}, where);
  return relabelled(div(Operand(total, where), Operand(divisor, where)).to(x.dtype(), where), to.shape);
}

double variance_divisor(const Reduced& to, double correction) {
  return std::max(0.0, static_cast<double>(to.count) - correction);
}

struct LogSumExpFormula {
  Saved input;
  SavedOutput output;
  Dims kept;
  Tensor operator()(Node& self, Tensor&& g) {
    const Location where = self.where;
    const Tensor y = put_back(output.get(self), kept, where);
    // Over -inf alone no element has a share.
    const Tensor none = eq(Operand(y, where), Operand(-__builtin_inf(), where));
    const Tensor safe = masked_fill(Operand(y, where), Operand(none, where), Operand(0, where));
    const Tensor share = exp(Operand(sub(Operand(input.get(self), where), Operand(safe, where)), where));
    return mul(Operand(share, where), Operand(put_back(g, kept, where), where));
  }
};

Tensor run_logsumexp(const Tensor& x, const Reduced& to, Location where) {
  NoGradGuard unrecorded;
  const Dims dims = reduced_dims(to.kept);
  Tensor peak = zeros(to.kept, {x.dtype(), x.device()}, where);
  if (x.numel() != 0) {
    peak = amax(x, dims, true, where);
    peak = masked_fill(Operand(peak, where), Operand(isinf(Operand(peak, where)), where), Operand(0, where));
  }
  const Tensor scaled = exp(Operand(sub(Operand(x, where), Operand(peak, where)), where));
  const Tensor total = log(Operand(sum(scaled, dims, true, {}, where), where));
  return relabelled(add(Operand(total, where), Operand(peak, where)), to.shape);
}

Tensor truth(Reduction reduction, const char* op, const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  return run_reduce(reduction, x, reduced(checked(x, op, where), dims, keepdim, op, where), DType::boolean, op, where);
}

}  // namespace

Tensor sum(const Tensor& x, Location where) { return sum(x, {}, false, {}, where); }
Tensor sum(const Tensor& x, const Dims& dims, bool keepdim, std::optional<DType> dtype, Location where) {
  const DType wanted = sum_type(checked(x, "sum", where), dtype);
  return sum_like(Reduction::sum, "sum", x, dims, keepdim, wanted, where);
}

Tensor mean(const Tensor& x, Location where) { return mean(x, {}, false, {}, where); }
Tensor mean(const Tensor& x, const Dims& dims, bool keepdim, std::optional<DType> dtype, Location where) {
  const DType wanted = dtype.value_or(checked(x, "mean", where).dtype());
  if (!is_floating(wanted) || is_storage_only(wanted)) {
    raise<DTypeError>(
        {.op = "mean",
         .problem = fmt::format("the mean of a {} tensor as {} has no exact type", name(x.dtype()), name(wanted)),
         .remedy = "pass a floating dtype, such as weft::f32"},
        where);
  }
  return sum_like(Reduction::mean, "mean", x, dims, keepdim, wanted, where);
}

Tensor prod(const Tensor& x, Location where) { return prod(x, {}, false, {}, where); }
Tensor prod(const Tensor& operand, const Dims& dims, bool keepdim, std::optional<DType> dtype, Location where) {
  const DType wanted = sum_type(checked(operand, "prod", where), dtype);
  const Reduced to = reduced(operand, dims, keepdim, "prod", where);
  const Tensor x = in_sum_type(operand, wanted, where);
  Tensor out = run_reduce(Reduction::prod, x, to, wanted, "prod", where);
  if (should_record(x)) record(out, "prod", where, ProdFormula{Saved(x), SavedOutput(out), to.kept}, x);
  return out;
}

Tensor any(const Tensor& x, Location where) { return any(x, {}, false, where); }
Tensor any(const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  return truth(Reduction::any, "any", x, dims, keepdim, where);
}
Tensor all(const Tensor& x, Location where) { return all(x, {}, false, where); }
Tensor all(const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  return truth(Reduction::all, "all", x, dims, keepdim, where);
}

Tensor var(const Tensor& x, Location where) { return var(x, {}, 1, false, where); }
Tensor var(const Tensor& x, const Dims& dims, double correction, bool keepdim, Location where) {
  check_floating("var", checked(x, "var", where), where);
  const Reduced to = reduced(x, dims, keepdim, "var", where);
  const double divisor = variance_divisor(to, correction);
  Tensor out = run_variance(x, to, correction, divisor, "var", where);
  if (should_record(x)) record(out, "var", where, VarianceFormula{Saved(x), to.kept, divisor}, x);
  return out;
}

Tensor std(const Tensor& x, Location where) { return weft::std(x, {}, 1, false, where); }
Tensor std(const Tensor& x, const Dims& dims, double correction, bool keepdim, Location where) {
  check_floating("std", checked(x, "std", where), where);
  const Reduced to = reduced(x, dims, keepdim, "std", where);
  const double divisor = variance_divisor(to, correction);
  Tensor out = sqrt(Operand(run_variance(x, to, correction, divisor, "std", where), where));
  if (should_record(x)) {
    record(out, "std", where, DeviationFormula{Saved(x), SavedOutput(out), to.kept, divisor}, x);
  }
  return out;
}

Tensor logsumexp(const Tensor& operand, const Dims& dims, bool keepdim, Location where) {
  const DType dtype = checked(operand, "logsumexp", where).dtype();
  const Tensor x = is_floating(dtype) ? widened(operand, where) : operand.to(default_dtype, where);
  const Reduced to = reduced(x, dims, keepdim, "logsumexp", where);
  Tensor out = run_logsumexp(x, to, where);
  if (should_record(x)) record(out, "logsumexp", where, LogSumExpFormula{Saved(x), SavedOutput(out), to.kept}, x);
  return is_floating(dtype) ? out.to(dtype, where) : out;
}

}  // namespace weft
