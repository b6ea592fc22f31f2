#include "../norm.hpp"

#include <algorithm>
#include <limits>

#include "../create.hpp"
#include "../pointwise.hpp"
#include "../detail/promote.hpp"
#include "../detail/autocast.hpp"
#include "../detail/records.hpp"
#include "../reduce.hpp"
#include "../detail/reducing.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_parameter(const char* what, const Tensor& x, const Tensor& parameter, const Dims& shape) {
  if (!parameter.defined()) return;
  check_floating(parameter);
  check_same_device({&x, &parameter});
  expect_shape(what, parameter, shape);
}

void check_norm(const Tensor& x, const Dims& shape, const Tensor& weight, const Tensor& bias) {
  check_floating(checked(x));
  const int first = x.dim() - shape.size();
  if (shape.empty() || first < 0 || !std::ranges::equal(x.sizes().subspan(first), shape)) {
    raise<ShapeError>({.problem = fmt::format("the normalized shape {} is not the end of x's shape {}", shape.text(),
                                              x.shape().text())});
  }
  check_parameter("weight", x, weight, shape);
  check_parameter("bias", x, bias, shape);
}

// f64 mixes with nothing else in kernels; the smaller floats do.
Tensor fitting(const Tensor& parameter, const Tensor& x) {
  if (!parameter.defined()) return parameter;
  const bool convert = (parameter.dtype() == DType::f64) != (x.dtype() == DType::f64);
  return (convert ? parameter.to(x.dtype()) : parameter).contiguous();
}

View flat_view(const Tensor& parameter) {
  return parameter.defined() ? reshaped_view(parameter.raw_view(), Dims(parameter.numel())) : View();
}

/// Rows as the kernels see them.
struct RowView {
  int64_t rows, n;
  View operator()(const Tensor& t) const { return reshaped_view(t.raw_view(), Dims{rows, n}); }
};
RowView rows_of(const Tensor& x, const Dims& shape) {
  const int64_t n = shape.product();
  return {n == 0 ? 0 : x.numel() / n, n};
}

/// Saved for backward by both norms. Only layer_norm has a mean.
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
Normalised normalised_by_ops(const Tensor& x, int dims_count, double eps, bool centered) {
  const Dims dims = last_dims(x.dim(), dims_count);
  Tensor wide = to_compute_type(x);
  if (centered) wide = wide - mean(wide, dims, true);
  const Tensor rstd = rsqrt(mean(square(wide), dims, true) + eps);
  return {wide * rstd, rstd};
}

void gradients_by_ops(const NormState& state, Node& self, const Tensor& gradient, Tensor* outgoing) {
  const Tensor& x = state.x.get(self);
  const Tensor g = to_compute_type(gradient);
  const auto [values, rstd] = normalised_by_ops(x, state.shape.size(), state.eps, state.centered);
  const Dims dims = last_dims(x.dim(), state.shape.size());
  const Tensor weight = state.weight.defined() ? state.weight.get(self) : Tensor();
  if (self.wants(0)) {
    const Tensor gw = weight.defined() ? g * weight : g;
    Tensor dx = gw - values * mean(gw * values, dims, true);
    if (state.centered) dx = std::move(dx) - mean(gw, dims, true);
    outgoing[0] = (std::move(dx) * rstd).to(x.dtype());
  }
  if (self.edge_count > 1 && self.wants(1)) {
    outgoing[1] = sum_to(g * values, state.shape).to(weight.dtype());
  }
  if (self.edge_count > 2 && self.wants(2)) {
    outgoing[2] = sum_to(Tensor(g), state.shape).to(state.bias_dtype);
  }
}

struct NormBackward {
  NormState state;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const KernelTable& table = kernels(incoming[0].raw_view());
    const bool lacking = state.centered ? table.layer_norm_gradient == nullptr : table.rms_norm_gradient == nullptr;
    if (recording() || lacking || incoming[0].numel() == 0) return gradients_by_ops(state, self, incoming[0], outgoing);
    const Tensor& x = state.x.get(self);
    const Tensor weight = state.weight.defined() ? state.weight.get(self) : Tensor();
    const Tensor g = incoming[0].contiguous();
    const RowView rows = rows_of(x, state.shape);
    const bool wants_bias = self.edge_count > 2 && self.wants(2);
    if (self.wants(0)) outgoing[0] = make_like(x);
    if (self.wants(1)) outgoing[1] = make_like(weight);
    if (wants_bias) outgoing[2] = make(state.shape, state.bias_dtype, x.device());
    const View dx = self.wants(0) ? rows(outgoing[0]) : View();
    if (state.centered) {
      table.layer_norm_gradient(dx, flat_view(outgoing[1]), wants_bias ? flat_view(outgoing[2]) : View(), rows(g),
                                rows(x), state.mean.raw_view(), state.rstd.raw_view(), flat_view(weight));
    } else {
      table.rms_norm_gradient(dx, flat_view(outgoing[1]), rows(g), rows(x), state.rstd.raw_view(), flat_view(weight));
    }
  }
};

Tensor scaled(Tensor values, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) values = std::move(values) * weight;
  if (bias.defined()) values = std::move(values) + bias;
  return values;
}

}  // namespace

Tensor layer_norm(const Tensor& operand, const Dims& shape, const Tensor& weight, const Tensor& bias, double eps,
                  Location where) {
  const CallScope call("layer_norm", where);
  WEFT_IN_FULL(layer_norm, operand, shape, weight, bias, eps, where);
  check_norm(operand, shape, weight, bias);
  const auto kernel = kernels(operand.raw_view()).layer_norm;
  if (kernel == nullptr || operand.numel() == 0) {
    const Tensor values = normalised_by_ops(operand, shape.size(), eps, true).values;
    return scaled(values, weight, bias).to(operand.dtype());
  }
  const Tensor x = operand.contiguous();
  const Tensor w = fitting(weight, x), b = fitting(bias, x);
  const RowView rows = rows_of(x, shape);
  Tensor out = make_like(x);
  const Tensor average = make(Dims(rows.rows), compute_type(x.dtype()), x.device());
  const Tensor rstd = make_like(average);
  kernel(rows(out), average.raw_view(), rstd.raw_view(), rows(x), flat_view(w), flat_view(b), eps);
  if (should_record(x, w, b)) {
    NormState state{true, eps, shape, b.defined() ? b.dtype() : DType::f32, Saved(x), {}, average, rstd};
    if (w.defined()) state.weight = Saved(w);
    record(out, NormBackward{std::move(state)}, x, w, b);
  }
  return out;
}

Tensor rms_norm(const Tensor& operand, const Dims& shape, const Tensor& weight, std::optional<double> epsilon,
                RmsCast cast, Location where) {
  const CallScope call("rms_norm", where);
  WEFT_IN_FULL(rms_norm, operand, shape, weight, epsilon, cast, where);
  check_norm(operand, shape, weight, {});
  const double eps = epsilon.value_or(machine_epsilon(compute_type(operand.dtype())));
  if (cast == RmsCast::before_weight && weight.defined()) {
    const Tensor values = rms_norm(operand, shape, {}, eps, RmsCast::once);
    return (values * weight).to(operand.dtype());
  }
  const auto kernel = kernels(operand.raw_view()).rms_norm;
  if (kernel == nullptr || operand.numel() == 0) {
    const Tensor values = normalised_by_ops(operand, shape.size(), eps, false).values;
    return scaled(values, weight, {}).to(operand.dtype());
  }
  const Tensor x = operand.contiguous();
  const Tensor w = fitting(weight, x);
  const RowView rows = rows_of(x, shape);
  Tensor out = make_like(x);
  const Tensor rstd = make(Dims(rows.rows), compute_type(x.dtype()), x.device());
  kernel(rows(out), rstd.raw_view(), rows(x), flat_view(w), eps);
  if (should_record(x, w)) {
    NormState state{false, eps, shape, DType::f32, Saved(x), {}, {}, rstd};
    if (w.defined()) state.weight = Saved(w);
    record(out, NormBackward{std::move(state)}, x, w);
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

Tensor call_rms_norm(const Tensor& x, const Dims& shape, const Tensor& weight, std::optional<double> eps) {
  return rms_norm(x, shape, weight, eps);
}

/// Rows by themselves.
Partition normalized(const WholeCall& call) {
  const Tensor& x = call.inputs()[0];
  const int rows = x.dim() - detail::dims_in(call["normalized_shape"]).size();
  std::string word = parts::uncut(x);
  word.replace(0, static_cast<size_t>(rows), parts::letters(rows));
  std::vector<std::string> in{word};
  for (size_t i = 1; i < call.inputs().size(); ++i) in.push_back(parts::uncut(call.inputs()[i]));
  return {.letters = parts::notation(in, std::vector{word})};
}

constexpr OpRecord records[] = {
    {"layer_norm", "layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-05)",
     "(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, whose sizes are normalized_shape "
     "(Ba, Kiros, Hinton 2016). 16-bit floats are computed in float32 and rounded once.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, layer_norm_samples, normalized,
     detail::boxed<layer_norm>},
    {"rms_norm", "rms_norm(x, normalized_shape, weight=None, eps=None)",
     "x / sqrt(mean(x * x) + eps) * weight over the last dimensions, whose sizes are normalized_shape (Zhang and "
     "Sennrich 2019). Without eps it is the machine epsilon of x's dtype, of float32 for 16-bit floats.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, rms_norm_samples, normalized,
     detail::boxed<call_rms_norm>},
};

}  // namespace

std::span<const OpRecord> norm_records() { return records; }

}  // namespace weft
