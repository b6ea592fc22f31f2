#include <weft/ops/norm.hpp>

#include <algorithm>
#include <limits>

#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/detail/records.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/detail/reducing.hpp>

namespace weft {

namespace {

void check_parameter(const char* op, const char* what, const Tensor& x, const Tensor& parameter, const Dims& shape,
                     Location where) {
  if (!parameter.defined()) return;
  check_floating(op, parameter, where);
  check_same_device(op, where, {&x, &parameter});
  if (parameter.shape() == shape) return;
  raise<ShapeError>({.op = op,
                     .problem = fmt::format("the {} has shape {}, not the normalized shape {}", what,
                                            parameter.shape().text(), shape.text())},
                    where);
}

void check_norm(const char* op, const Tensor& x, const Dims& shape, const Tensor& weight, const Tensor& bias,
                Location where) {
  check_floating(op, checked(x, op, where), where);
  const int first = x.dim() - shape.size();
  if (shape.empty() || first < 0 || !std::ranges::equal(x.sizes().subspan(first), shape)) {
    raise<ShapeError>({.op = op,
                       .problem = fmt::format("the normalized shape {} is not the end of x's shape {}", shape.text(),
                                              x.shape().text())},
                      where);
  }
  check_parameter(op, "weight", x, weight, shape, where);
  check_parameter(op, "bias", x, bias, shape, where);
}

// f64 mixes with nothing else in kernels; the smaller floats do.
Tensor fitting(const Tensor& parameter, const Tensor& x, Location where) {
  if (!parameter.defined()) return parameter;
  const bool convert = (parameter.dtype() == DType::f64) != (x.dtype() == DType::f64);
  return (convert ? parameter.to(x.dtype(), where) : parameter).contiguous(where);
}

View flat(const Tensor& parameter) {
  return parameter.defined() ? seen_as(parameter.raw_view(), Dims(parameter.numel())) : View();
}

/// Rows as the kernels see them.
struct RowView {
  int64_t rows, n;
  View operator()(const Tensor& t) const { return seen_as(t.raw_view(), Dims{rows, n}); }
};
RowView rows_of(const Tensor& x, const Dims& shape) {
  const int64_t n = shape.product();
  return {n == 0 ? 0 : x.numel() / n, n};
}

/// What both norms keep for backward. Only layer_norm has a mean.
struct NormState {
  bool centered;
  double eps;
  Dims shape;
  DType bias_dtype = DType::f32;
  Saved x, weight;
  Tensor mean, rstd;
};

Dims last_dims(int rank, int count) {
  Dims dims;
  for (int i = rank - count; i < rank; ++i) dims.push_back(i);
  return dims;
}

struct Normalised {
  Tensor values, rstd;
};
// (x - mean) / std or x / rms by differentiable ops, in the compute type.
Normalised normalised_by_ops(const Tensor& x, int dims_count, double eps, bool centered, Location where) {
  const Dims dims = last_dims(x.dim(), dims_count);
  Tensor wide = widened(x, where);
  if (centered) wide = sub(Operand(wide, where), Operand(mean(wide, dims, true, {}, where), where));
  const Tensor spread = mean(square(Operand(wide, where)), dims, true, {}, where);
  const Tensor rstd = rsqrt(Operand(add(Operand(spread, where), Operand(eps, where)), where));
  return {mul(Operand(wide, where), Operand(rstd, where)), rstd};
}

void gradients_by_ops(const NormState& state, Node& self, const Tensor& gradient, Tensor* outgoing) {
  const Location where = self.where;
  const Tensor& x = state.x.get(self);
  const Tensor g = widened(gradient, where);
  const auto [values, rstd] = normalised_by_ops(x, state.shape.size(), state.eps, state.centered, where);
  const Dims dims = last_dims(x.dim(), state.shape.size());
  const Tensor weight = state.weight.defined() ? state.weight.get(self) : Tensor();
  if (self.wants(0)) {
    const Tensor gw = weight.defined() ? mul(Operand(g, where), Operand(weight, where)) : g;
    const Tensor along = mean(mul(Operand(gw, where), Operand(values, where)), dims, true, {}, where);
    Tensor dx = sub(Operand(gw, where), Operand(mul(Operand(values, where), Operand(along, where)), where));
    if (state.centered) dx = sub(Operand(std::move(dx), where), Operand(mean(gw, dims, true, {}, where), where));
    outgoing[0] = mul(Operand(std::move(dx), where), Operand(rstd, where)).to(x.dtype(), where);
  }
  if (self.edge_count > 1 && self.wants(1)) {
    const Tensor product = mul(Operand(g, where), Operand(values, where));
    outgoing[1] = sum_to(Tensor(product), state.shape, where).to(weight.dtype(), where);
  }
  if (self.edge_count > 2 && self.wants(2)) {
    outgoing[2] = sum_to(Tensor(g), state.shape, where).to(state.bias_dtype, where);
  }
}

struct NormFormula {
  NormState state;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Location where = self.where;
    const KernelTable& table = kernels(incoming[0].raw_view());
    const bool lacking = state.centered ? table.layer_norm_gradient == nullptr : table.rms_norm_gradient == nullptr;
    if (recording() || lacking || incoming[0].numel() == 0) return gradients_by_ops(state, self, incoming[0], outgoing);
    const Tensor& x = state.x.get(self);
    const Tensor weight = state.weight.defined() ? state.weight.get(self) : Tensor();
    const Tensor g = incoming[0].contiguous(where);
    const RowView rows = rows_of(x, state.shape);
    const bool wants_bias = self.edge_count > 2 && self.wants(2);
    if (self.wants(0)) outgoing[0] = make_like(x, self.op, where);
    if (self.wants(1)) outgoing[1] = make_like(weight, self.op, where);
    if (wants_bias) outgoing[2] = make(state.shape, state.bias_dtype, x.device(), self.op, where);
    const View dx = self.wants(0) ? rows(outgoing[0]) : View();
    if (state.centered) {
      table.layer_norm_gradient(dx, flat(outgoing[1]), wants_bias ? flat(outgoing[2]) : View(), rows(g), rows(x),
                                state.mean.raw_view(), state.rstd.raw_view(), flat(weight));
    } else {
      table.rms_norm_gradient(dx, flat(outgoing[1]), rows(g), rows(x), state.rstd.raw_view(), flat(weight));
    }
  }
};

double machine_epsilon(DType t) {
  switch (t) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f32:
      return std::numeric_limits<float>::epsilon();
    case DType::f16:
      return 0x1p-10;
    default:
      return 0x1p-7;
  }
}

Tensor scaled(Tensor values, const Tensor& weight, const Tensor& bias, Location where) {
  if (weight.defined()) values = mul(Operand(std::move(values), where), Operand(weight, where));
  if (bias.defined()) values = add(Operand(std::move(values), where), Operand(bias, where));
  return values;
}

}  // namespace

Tensor layer_norm(const Tensor& operand, const Dims& shape, const Tensor& weight, const Tensor& bias, double eps,
                  Location where) {
  check_norm("layer_norm", operand, shape, weight, bias, where);
  const auto kernel = kernels(operand.raw_view()).layer_norm;
  if (kernel == nullptr || operand.numel() == 0) {
    const Tensor values = normalised_by_ops(operand, shape.size(), eps, true, where).values;
    return scaled(values, weight, bias, where).to(operand.dtype(), where);
  }
  const Tensor x = operand.contiguous(where);
  const Tensor w = fitting(weight, x, where), b = fitting(bias, x, where);
  const RowView rows = rows_of(x, shape);
  Tensor out = make_like(x, "layer_norm", where);
  const Tensor average = make(Dims(rows.rows), compute_type(x.dtype()), x.device(), "layer_norm", where);
  const Tensor rstd = make_like(average, "layer_norm", where);
  kernel(rows(out), average.raw_view(), rstd.raw_view(), rows(x), flat(w), flat(b), eps);
  if (should_record(x, w, b)) {
    NormState state{true, eps, shape, b.defined() ? b.dtype() : DType::f32, Saved(x), {}, average, rstd};
    if (w.defined()) state.weight = Saved(w);
    record(out, "layer_norm", where, NormFormula{std::move(state)}, x, w, b);
  }
  return out;
}

Tensor rms_norm(const Tensor& operand, const Dims& shape, const Tensor& weight, std::optional<double> epsilon,
                RmsCast cast, Location where) {
  check_norm("rms_norm", operand, shape, weight, {}, where);
  const double eps = epsilon.value_or(machine_epsilon(operand.dtype()));
  if (cast == RmsCast::before_weight && weight.defined()) {
    const Tensor values = rms_norm(operand, shape, {}, eps, RmsCast::once, where);
    return mul(Operand(values, where), Operand(weight, where)).to(operand.dtype(), where);
  }
  const auto kernel = kernels(operand.raw_view()).rms_norm;
  if (kernel == nullptr || operand.numel() == 0) {
    const Tensor values = normalised_by_ops(operand, shape.size(), eps, false, where).values;
    return scaled(values, weight, {}, where).to(operand.dtype(), where);
  }
  const Tensor x = operand.contiguous(where);
  const Tensor w = fitting(weight, x, where);
  const RowView rows = rows_of(x, shape);
  Tensor out = make_like(x, "rms_norm", where);
  const Tensor rstd = make(Dims(rows.rows), compute_type(x.dtype()), x.device(), "rms_norm", where);
  kernel(rows(out), rstd.raw_view(), rows(x), flat(w), eps);
  if (should_record(x, w)) {
    NormState state{false, eps, shape, DType::f32, Saved(x), {}, {}, rstd};
    if (w.defined()) state.weight = Saved(w);
    record(out, "rms_norm", where, NormFormula{std::move(state)}, x, w);
  }
  return out;
}

namespace {

std::vector<Values> layer_norm_samples(SampleMaker& make) {
  return {{make.tensor({2, 5}), Dims(5), make.tensor({5}), make.tensor({5})},
          {make.tensor({2, 3, 4}), Dims{3, 4}, make.tensor({3, 4}), std::monostate{}, 1e-3},
          {make.tensor({4}), Dims(4)},
          {make.tensor({0, 3}), Dims(3), make.tensor({3}), make.tensor({3})}};
}
std::vector<Values> rms_norm_samples(SampleMaker& make) {
  return {{make.tensor({2, 5}), Dims(5), make.tensor({5})},
          {make.tensor({2, 3, 4}), Dims{3, 4}, make.tensor({3, 4}), 1e-3},
          {make.tensor({4}), Dims(4)},
          {make.tensor({0, 3}), Dims(3), make.tensor({3})}};
}

Tensor call_layer_norm(const Tensor& x, const Dims& shape, const Tensor& weight, const Tensor& bias,
                       std::optional<double> eps) {
  return layer_norm(x, shape, weight, bias, eps.value_or(1e-5), boxed_place());
}
Tensor call_rms_norm(const Tensor& x, const Dims& shape, const Tensor& weight, std::optional<double> eps) {
  return rms_norm(x, shape, weight, eps, RmsCast::once, boxed_place());
}

constexpr OpRecord records[] = {
    {"layer_norm", "layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-05)",
     "(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, whose sizes are normalized_shape "
     "(Ba, Kiros, Hinton 2016). 16-bit floats are computed in float32 and rounded once.",
     true, OpRecord::Domain::floating, layer_norm_samples, detail::boxed<call_layer_norm>},
    {"rms_norm", "rms_norm(x, normalized_shape, weight=None, eps=None)",
     "x / sqrt(mean(x * x) + eps) * weight over the last dimensions, whose sizes are normalized_shape (Zhang and "
     "Sennrich 2019). Without eps it is the machine epsilon of x's dtype.",
     true, OpRecord::Domain::floating, rms_norm_samples, detail::boxed<call_rms_norm>},
};

}  // namespace

std::span<const OpRecord> norm_records() { return records; }

}  // namespace weft
