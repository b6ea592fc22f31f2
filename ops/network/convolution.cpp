// Result, data gradient and weight gradient are three products, each of which has the other two as its gradients. So
// all orders of derivatives use these three, and a transposed convolution is the second of them.
#include "../convolution.hpp"

#include <algorithm>

#include "../../backends/backend.hpp"
#include "../../tensor/checked.hpp"
#include "../complex.hpp"
#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../detail/taps.hpp"
#include "../detail/windows.hpp"
#include "../join.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

ConvolutionPadding::ConvolutionPadding(std::string_view word, Location where) : same(word == "same") {
  if (same || word == "valid") return;
  const CallScope call("padding", where);
  raise_value("padding", "'same' or 'valid'", in_quotes(word));
}

namespace {

using enum Convolution;

// ---- the three products, by ops that every device has ----

/// Operands with three spatial dimensions.
struct Sizes {
  int64_t batch, groups, channels, outputs;
  Taps taps;

  Sizes(const Dims& x, const Dims& w, const Dims& y, const ConvolutionSteps& steps)
      : batch(x[0]), groups(steps.groups), channels(w[1]), outputs(w[0] / groups), taps{{}, {}, {}, steps} {
    for (int d = 0; d < 3; ++d) {
      taps.in[d] = x[2 + d];
      taps.kernel[d] = w[2 + d];
      taps.out[d] = y[2 + d];
    }
  }
  Tensor weights(const Tensor& w) const { return w.view({groups, outputs, channels * taps.count()}); }
  Tensor columns(const Tensor& x) const {
    return columns_of(x, taps).view({batch, groups, channels * taps.count(), taps.positions()});
  }
  Tensor results(const Tensor& y) const { return y.view({batch, groups, outputs, taps.positions()}); }
};

Tensor product_by_ops(Convolution product, const Tensor& a, const Tensor& b, const Sizes& s) {
  switch (product) {
    case forward:
      return matmul(s.weights(b), s.columns(a));
    case by_data:
      return sums_of_columns(matmul(s.weights(b).transpose(1, 2), s.results(a)), s.groups * s.channels, s.taps);
    case by_weight:
      return sum(matmul(s.results(b), s.columns(a).transpose(2, 3)), 0);
  }
  __builtin_unreachable();
}

// ---- recorded ----

Tensor product_of(Convolution product, const Tensor& a, const Tensor& b, const Tensor& bias, const Dims& shape,
                  const ConvolutionSteps& steps);

/// The products are linear in both operands, and the gradients of each are the other two.
struct ConvolutionBackward {
  Convolution product;
  ConvolutionSteps steps;
  Saved a, b;
  Dims a_shape, b_shape;

  Tensor times(Convolution other, const Tensor& left, const Tensor& right, const Dims& shape) const {
    return product_of(other, left, right, {}, shape, steps);
  }
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& g = incoming[0];
    if (self.wants(0)) {
      const Tensor& other = b.get(self);
      outgoing[0] = product == forward   ? times(by_data, g, other, a_shape)
                    : product == by_data ? times(forward, g, other, a_shape)
                                         : times(by_data, other, g, a_shape);
    }
    if (self.wants(1)) {
      const Tensor& other = a.get(self);
      outgoing[1] = product == forward   ? times(by_weight, other, g, b_shape)
                    : product == by_data ? times(by_weight, g, other, b_shape)
                                         : times(forward, other, g, b_shape);
    }
    if (self.edge_count > 2 && self.wants(2)) outgoing[2] = sum(g, {0, 2, 3, 4});
  }
};

Tensor product_of(Convolution product, const Tensor& left, const Tensor& right, const Tensor& bias, const Dims& shape,
                  const ConvolutionSteps& steps) {
  const Tensor a = left.contiguous(), b = right.contiguous();
  const Dims& x = product == by_data ? shape : a.shape();
  const Dims& w = product == by_weight ? shape : b.shape();
  const Dims& y = product == forward ? shape : product == by_data ? a.shape() : b.shape();
  Tensor out;
  {
    const NoGradGuard unrecorded;
    if (const auto kernel = kernels(a.raw_view()).convolution; kernel != nullptr && is_floating(a.dtype())) {
      out = make(shape, a.dtype(), a.device());
      const Tensor dense = bias.defined() ? bias.contiguous() : Tensor();
      kernel(product, out.raw_view(), a.raw_view(), b.raw_view(), bias.defined() ? dense.raw_view() : View(), steps);
    } else {
      out = product_by_ops(product, a, b, Sizes(x, w, y, steps)).reshape(shape);
      if (bias.defined()) out.add_(bias.view({-1, 1, 1, 1}));
    }
  }
  if (!should_record(a, b, bias)) return out;
  const bool data_wanted = needs_gradient(a.impl()), weight_wanted = needs_gradient(b.impl());
  ConvolutionBackward backward{
      product, steps, weight_wanted ? Saved(a) : Saved(), data_wanted ? Saved(b) : Saved(), a.shape(), b.shape()};
  if (bias.defined()) record(out, std::move(backward), a, b, bias);
  else record(out, std::move(backward), a, b);
  return out;
}

// ---- the public functions ----

[[noreturn]] void raise_operands(const std::string& problem, const Tensor& x, const Tensor& weight) {
  raise<ShapeError>(
      {.problem = problem, .details = fmt::format("x {}, weight {}", x.shape().text(), weight.shape().text())});
}

void check_operands(const Tensor& x, const Tensor& weight, const Tensor& bias, int dims) {
  for (const Tensor* t : {&x, &weight}) {
    if (!is_complex(checked(*t).dtype()) && !is_integer(t->dtype())) check_floating(*t);
  }
  check_same_device({&x, &weight, &bias});
  for (const Tensor* t : {&weight, &bias}) {
    if (t->defined()) expect_one_dtype(t == &bias ? "x and bias" : "x and weight", x, *t);
  }
  if (weight.dim() != dims + 2 || (x.dim() != dims + 2 && x.dim() != dims + 1)) {
    raise_operands(fmt::format("x needs {} or {} dimensions and the weight {}", dims + 1, dims + 2, dims + 2), x,
                   weight);
  }
}

void check_bias(const Tensor& bias, int64_t outputs) {
  if (bias.defined()) expect_shape("bias", bias, Dims(outputs));
}

void check_groups(const Tensor& x, const Tensor& weight, int64_t groups, int64_t split) {
  expect_at_least("groups", groups, 1);
  if (split % groups != 0) raise_operands(fmt::format("{} are not divisible into {} groups", split, groups), x, weight);
}

int64_t size_of(Checked size, const Tensor& x, const Tensor& weight) {
  if (!size.fits()) raise_operands("the result's size overflows", x, weight);
  return size.value();
}

/// Sizes and steps of all three dimensions; those that are not there have size 1.
struct Plan {
  Dims x{1, 1, 1, 1, 1}, weight{1, 1, 1, 1, 1}, result{1, 1, 1, 1, 1};
  ConvolutionSteps steps{{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1};
};

/// The plan without the result's spatial sizes and the steps' padding. x is batched.
Plan plan_of(const Tensor& x, const Tensor& weight, const Dims& stride, const Dims& dilation, int64_t groups) {
  Plan plan;
  plan.steps.groups = groups;
  for (int d = 0; d < 2; ++d) {
    plan.x[d] = x.size(d);
    plan.weight[d] = weight.size(d);
  }
  const int first = 3 - stride.size();
  for (int d = 0; d < stride.size(); ++d) {
    plan.x[2 + first + d] = x.size(2 + d);
    plan.weight[2 + first + d] = weight.size(2 + d);
    if (weight.size(2 + d) < 1) raise_operands("a kernel of no elements", x, weight);
    plan.steps.stride[first + d] = stride[d];
    plan.steps.dilation[first + d] = dilation[d];
  }
  return plan;
}

/// The extent of a kernel along d.
Checked extent(const Plan& plan, int d) { return Checked(plan.steps.dilation[d]) * (plan.weight[2 + d] - 1) + 1; }

/// The result without the dimensions that the plan added.
Dims result_shape(const Plan& plan, int dims, bool batched) {
  Dims shape;
  if (batched) shape.push_back(plan.result[0]);
  shape.push_back(plan.result[1]);
  for (int d = 3 - dims; d < 3; ++d) shape.push_back(plan.result[2 + d]);
  return shape;
}

Tensor convolve_as_planned(Convolution product, const Plan& plan, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, const Dims& shape) {
  Backend* const backend = itemsize(x.dtype()) <= 2 ? find_backend(x.device().type) : nullptr;
  const bool rounds_once = product == forward || !bias.defined();
  const bool as_it_is = rounds_once && backend != nullptr && backend->convolves_small_floats();
  const auto computed = [&](const Tensor& t) { return as_it_is ? t : to_compute_type(t); };
  const Tensor a = computed(x).reshape(plan.x), b = computed(weight).reshape(plan.weight);
  const Tensor c = bias.defined() ? computed(bias) : bias;
  Tensor out = product_of(product, a, b, product == forward ? c : Tensor(), plan.result, plan.steps);
  if (product != forward && c.defined()) out = std::move(out) + c.view({-1, 1, 1, 1});
  return out.to(x.dtype()).reshape(shape);
}

/// A complex convolution by real ones: the components of x are concatenated in the batch.
template <class Convolve>
Tensor of_parts(const Tensor& x, const Tensor& weight, const Tensor& bias, int dims, Convolve&& convolve) {
  const bool batched = x.dim() == dims + 2;
  const Tensor data = batched ? x : x.unsqueeze(0), parts = cat({real(data), imag(data)}, 0);
  const auto by_real = convolve(parts, real(weight)).chunk(2), by_imag = convolve(parts, imag(weight)).chunk(2);
  Tensor out = complex(by_real[0] - by_imag[1], by_real[1] + by_imag[0]);
  Dims channel = Dims::filled(dims + 1, 1);
  channel[0] = -1;
  if (bias.defined()) out = out + bias.reshape(channel);
  return batched ? out : out.squeeze(0);
}

/// `convolve(x, weight, bias)` in int64; its low bits are the result in any narrower integer type.
template <class Convolve>
Tensor of_integers(const Tensor& x, const Tensor& weight, const Tensor& bias, Convolve&& convolve) {
  const auto wide = [](const Tensor& t) { return t.defined() ? t.to(DType::i64) : t; };
  return convolve(wide(x), wide(weight), wide(bias)).to(x.dtype());
}

/// `convolve(x, weight, bias)` by parts where the numbers are complex, in int64 where they are narrower integers;
/// nothing for others. `channels()` is the bias's length.
template <class Channels, class Convolve>
std::optional<Tensor> by_other_numbers(const Tensor& x, const Tensor& weight, const Tensor& bias, int dims,
                                       Channels&& channels, Convolve&& convolve) {
  if (WEFT_UNLIKELY(is_complex(x.dtype()))) {
    check_bias(bias, channels());
    return of_parts(x, weight, bias, dims, [&](const Tensor& t, const Tensor& w) { return convolve(t, w, Tensor()); });
  }
  if (WEFT_UNLIKELY(is_integer(x.dtype()) && x.dtype() != DType::i64)) return of_integers(x, weight, bias, convolve);
  return {};
}

template <int dims>
Tensor convolve(const Tensor& operand, const Tensor& weight, const Tensor& bias, const ConvolutionOptions& options) {
  check_operands(operand, weight, bias, dims);
  const auto again = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
    return convolve<dims>(x, w, b, options);
  };
  const auto channels_out = [&] { return weight.size(0); };
  if (auto out = by_other_numbers(operand, weight, bias, dims, channels_out, again)) return *std::move(out);
  const bool batched = operand.dim() == dims + 2;
  const Tensor x = batched ? operand : operand.unsqueeze(0);
  const Dims stride = for_each_dim(options.stride, dims, "stride", 1);
  const Dims dilation = for_each_dim(options.dilation, dims, "dilation", 1);
  const Dims padding = for_each_dim(options.padding.sizes, dims, "padding", 0);
  check_groups(x, weight, options.groups, weight.size(0));
  if (Checked channels = Checked(weight.size(1)) * options.groups; !channels.fits() || channels.value() != x.size(1)) {
    raise_operands(fmt::format("x has {} channels, the weight takes {} in each of {} groups", x.size(1), weight.size(1),
                               options.groups),
                   operand, weight);
  }
  check_bias(bias, weight.size(0));
  Plan plan = plan_of(x, weight, stride, dilation, options.groups);
  plan.result[0] = x.size(0);
  plan.result[1] = weight.size(0);
  for (int d = 0; d < dims; ++d) {
    const int at = 3 - dims + d;
    const Checked reach = extent(plan, at) - 1;
    if (options.padding.same && stride[d] != 1) {
      raise<ValueError>({.problem = "padding \"same\" goes with a stride of 1 only"});
    }
    const Checked around = options.padding.same ? reach : Checked(padding[d]) * 2;
    plan.steps.padding[at] = options.padding.same ? size_of(reach, x, weight) / 2 : padding[d];
    const int64_t room = size_of(Checked(x.size(2 + d)) + around - reach, x, weight);
    if (room < 1) raise_operands("the kernel is larger than the padded data", operand, weight);
    plan.result[2 + at] = (room - 1) / stride[d] + 1;
  }
  return convolve_as_planned(forward, plan, x, weight, bias, result_shape(plan, dims, batched));
}

template <int dims>
Tensor convolve_transposed(const Tensor& operand, const Tensor& weight, const Tensor& bias,
                           const TransposedConvolutionOptions& options) {
  check_operands(operand, weight, bias, dims);
  const auto again = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
    return convolve_transposed<dims>(x, w, b, options);
  };
  const auto channels_out = [&] { return weight.size(1) * options.groups; };
  if (auto out = by_other_numbers(operand, weight, bias, dims, channels_out, again)) return *std::move(out);
  const bool batched = operand.dim() == dims + 2;
  const Tensor x = batched ? operand : operand.unsqueeze(0);
  const Dims stride = for_each_dim(options.stride, dims, "stride", 1);
  const Dims dilation = for_each_dim(options.dilation, dims, "dilation", 1);
  const Dims padding = for_each_dim(options.padding, dims, "padding", 0);
  const Dims added = for_each_dim(options.output_padding, dims, "output_padding", 0);
  check_groups(x, weight, options.groups, weight.size(0));
  if (weight.size(0) != x.size(1)) {
    raise_operands(fmt::format("x has {} channels, the weight takes {}", x.size(1), weight.size(0)), operand, weight);
  }
  const int64_t outputs = size_of(Checked(weight.size(1)) * options.groups, x, weight);
  check_bias(bias, outputs);
  Plan plan = plan_of(x, weight, stride, dilation, options.groups);
  plan.result[0] = x.size(0);
  plan.result[1] = outputs;
  for (int d = 0; d < dims; ++d) {
    const int at = 3 - dims + d;
    if (added[d] >= std::max(stride[d], dilation[d])) {
      raise<ValueError>({.problem = fmt::format("the output padding {} is not below the stride {} or the dilation {}",
                                                added[d], stride[d], dilation[d])});
    }
    plan.steps.padding[at] = padding[d];
    const Checked size = Checked(x.size(2 + d) - 1) * stride[d] - Checked(padding[d]) * 2 + extent(plan, at) + added[d];
    plan.result[2 + at] = size_of(size, x, weight);
    if (size.value() < 1 || x.size(2 + d) < 1) raise_operands("the result would have no elements", operand, weight);
  }
  return convolve_as_planned(by_data, plan, x, weight, bias, result_shape(plan, dims, batched));
}

}  // namespace

#define WEFT_CONVOLUTION(dims)                                                                                \
  Tensor conv##dims##d(const Tensor& x, const Tensor& weight, const Tensor& bias, ConvolutionOptions options, \
                       Location where) {                                                                      \
    const CallScope call("conv" #dims "d", where);                                                            \
    WEFT_IN_LOWER(conv##dims##d, x, weight, bias, options, where);                                            \
    return convolve<dims>(x, weight, bias, options);                                                          \
  }                                                                                                           \
  Tensor conv_transpose##dims##d(const Tensor& x, const Tensor& weight, const Tensor& bias,                   \
                                 TransposedConvolutionOptions options, Location where) {                      \
    const CallScope call("conv_transpose" #dims "d", where);                                                  \
    WEFT_IN_LOWER(conv_transpose##dims##d, x, weight, bias, options, where);                                  \
    return convolve_transposed<dims>(x, weight, bias, options);                                               \
  }
WEFT_CONVOLUTION(1)
WEFT_CONVOLUTION(2)
WEFT_CONVOLUTION(3)
#undef WEFT_CONVOLUTION

namespace detail {
template <>
struct Unbox<ConvolutionPadding> {
  static constexpr ArgumentType type{ArgumentType::Kind::any};
  static ConvolutionPadding from(const Value& v) {
    if (auto* word = std::get_if<std::string>(&v)) return ConvolutionPadding(*word, current_call.where);
    return dims_in(v);
  }
};
}  // namespace detail

namespace {

template <auto function>
constexpr BoxedFunction boxed_convolution =
    detail::boxed<+[](const Tensor& x, const Tensor& weight, const Tensor& bias, Dims stride,
                      ConvolutionPadding padding, Dims dilation, int64_t groups) {
      return function(x, weight, bias, {stride, padding, dilation, groups}, detail::current_call.where);
    }>;
template <auto function>
constexpr BoxedFunction boxed_transposed =
    detail::boxed<+[](const Tensor& x, const Tensor& weight, const Tensor& bias, Dims stride, Dims padding,
                      Dims output_padding, int64_t groups, Dims dilation) {
      return function(x, weight, bias, {stride, padding, output_padding, groups, dilation}, detail::current_call.where);
    }>;

// Data with sizes that increase by one per dimension, and kernels of one size.
template <int dims>
Tensor data(SampleMaker& make, int64_t n, int64_t channels, int64_t size) {
  Dims shape{n, channels};
  for (int d = 0; d < dims; ++d) shape.push_back(size - d);
  return make.tensor(shape);
}
template <int dims>
Tensor kernels_of(SampleMaker& make, int64_t first, int64_t second, int64_t size) {
  Dims shape{first, second};
  for (int d = 0; d < dims; ++d) shape.push_back(size);
  return make.tensor(shape, -1, 1);
}

template <int dims>
std::vector<Values> convolution_samples(SampleMaker& make) {
  const auto x = [&](int64_t n, int64_t c) { return data<dims>(make, n, c, 5); };
  const auto w = [&](int64_t o, int64_t c, int64_t size) { return kernels_of<dims>(make, o, c, size); };
  std::vector<Values> all = {{x(2, 2), w(2, 2, 2), make.tensor({2})},
                             {x(1, 3), w(2, 3, 3), std::monostate{}, int64_t{2}, int64_t{1}},
                             {x(2, 1), w(1, 1, 2), make.tensor({1}), int64_t{1}, std::string("same")},
                             {x(1, 2), w(2, 1, 2), make.tensor({2}), int64_t{1}, int64_t{2}, int64_t{2}, int64_t{2}},
                             {x(0, 2), w(2, 2, 2), make.tensor({2})}};
  all.push_back({x(1, 2).select(0, 0).contiguous(), w(1, 2, 2)});
  return all;
}
template <int dims>
std::vector<Values> transposed_samples(SampleMaker& make) {
  const auto x = [&](int64_t n, int64_t c) { return data<dims>(make, n, c, 4); };
  const auto w = [&](int64_t c, int64_t o, int64_t size) { return kernels_of<dims>(make, c, o, size); };
  return {{x(2, 2), w(2, 2, 2), make.tensor({2})},
          {x(1, 2), w(2, 1, 3), std::monostate{}, int64_t{2}, int64_t{1}, int64_t{1}},
          {x(1, 2), w(2, 2, 2), make.tensor({4}), int64_t{1}, int64_t{0}, int64_t{0}, int64_t{2}, int64_t{2}},
          {x(1, 2).select(0, 0).contiguous(), w(2, 1, 2), make.tensor({1})}};
}

/// Examples, channels out, and channels in, over which parts add up; or groups of channels.
template <int dims, bool transposed>
Partition convolved(const WholeCall& call) {
  const Tensor &x = call.inputs()[0], &weight = call.inputs()[1];
  const bool has_bias = call.tensor("bias").defined(), has_batch = x.dim() == dims + 2;
  const int64_t groups = detail::integer_in(call["groups"]), channels = x.size(-dims - 1);
  const std::string window(static_cast<size_t>(dims), '1'), examples = has_batch ? "n" : "";
  const std::string c = groups == 1 ? "c" : "g", o = groups == 1 ? "o" : "g";
  const std::string kernels = groups != 1 ? "g1" : transposed ? "co" : "oc";
  Partition rule{.letters = examples + c + window + "," + kernels + window + (has_bias ? "," + o : "") + "->" +
                            examples + o + window,
                 .linearity = has_bias ? Linearity::none : Linearity::each};
  if (groups != 1) rule.units.emplace_back('g', groups);
  rule.on_parts = [=](PartCall& part) {
    const int axis = has_batch ? 1 : 0;
    if (groups != 1) part["groups"] = channels == 0 ? groups : groups * part.inputs[0].sizes[axis] / channels;
    else if (has_bias) part["bias"] = parts::added_once(part, part.tensor("bias"), 0, axis);
    return part.run();
  };
  static_cast<void>(weight);
  return rule;
}

#define WEFT_CONVOLUTION_RECORDS(dims, sizes, kernel)                                                                  \
  {"conv" #dims "d",                                                                                                   \
   "conv" #dims "d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)",                                  \
   "The sums of x [N, C, " sizes "] under the kernels of weight [O, C / groups, " kernel                               \
   "], plus bias [O]. padding "                                                                                        \
   "is in zeros, or \"same\" or \"valid\". 16-bit floats are computed in float32 and rounded once.",                   \
   OpFacts(true, Autocast::lower),                                                                                     \
   OpRecord::Domain::floating,                                                                                         \
   convolution_samples<dims>,                                                                                          \
   convolved<dims, false>,                                                                                             \
   boxed_convolution<conv##dims##d>},                                                                                  \
  {                                                                                                                    \
    "conv_transpose" #dims "d",                                                                                        \
        "conv_transpose" #dims "d(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1)", \
        "The gradient of conv" #dims "d by its data: x [N, C, " sizes                                                  \
        "] spread by the kernels of weight "                                                                           \
        "[C, O / groups, " kernel "], plus bias [O].",                                                                 \
        OpFacts(true, Autocast::lower), OpRecord::Domain::floating, transposed_samples<dims>, convolved<dims, true>,   \
        boxed_transposed<conv_transpose##dims##d>                                                                      \
  }
constexpr OpRecord records[] = {WEFT_CONVOLUTION_RECORDS(1, "L", "K"), WEFT_CONVOLUTION_RECORDS(2, "H, W", "KH, KW"),
                                WEFT_CONVOLUTION_RECORDS(3, "D, H, W", "KD, KH, KW")};
#undef WEFT_CONVOLUTION_RECORDS

}  // namespace

std::span<const OpRecord> convolution_records() { return records; }

}  // namespace weft
