#include <numeric>

#include "../../autograd/mode.hpp"
#include "../create.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "blocks-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

constexpr BlockSides row_sides{1, block_size}, tile_sides{block_size, block_size};
/// Those of rows, in the transpose.
constexpr BlockSides column_sides{block_size, 1};

Tensor fresh_scale(BlockSides sides, int64_t m, int64_t n, Device device) {
  Tensor scale = make(scale_shape(sides, m, n), DType::f32, device);
  if (m == 0 || n == 0) scale.fill_(1);
  return scale;
}

void check_number(const char* what, const Tensor& t) {
  const DType d = checked(t).dtype();
  expect_dtype(what, t, d == DType::f16 || d == DType::bf16 || d == DType::f32, "float16, bfloat16 or float32");
}

}  // namespace

Tensor fused_act_dequant(const Tensor& q, const Tensor& scale, Location where) {
  const CallScope call("fused_act_dequant", where);
  expect_matrix("q", checked(q));
  require_codes("q", q, scale, row_sides);
  return dequantized(q, scale, row_sides, DType::bf16);
}

QuantizedSplits fused_transpose_split_quant(const Tensor& given, const std::optional<Tensor>& given_scale,
                                            std::span<const int64_t> tokens_per_expert, bool pow2, Location where) {
  const CallScope call("fused_transpose_split_quant", where);
  const Tensor x = checked(given).detach(), scale = given_scale.value_or(Tensor());
  expect_matrix("x", x);
  if (is_fp8(x.dtype())) require_codes("x", x, scale, row_sides);
  else check_number("x", x);
  if (!is_fp8(x.dtype()) && scale.defined()) {
    raise<ValueError>({.problem = fmt::format("a scale is of 8-bit floats, and x is {}", name(x.dtype()))});
  }
  int64_t left = x.size(0);
  for (const int64_t t : tokens_per_expert) {
    if (t < 0 || t % block_size != 0 || t > left) {
      raise<ValueError>(
          {.problem = fmt::format("{} tokens of {} that are left; each expert has a multiple of 128", t, left)});
    }
    left -= t;
  }
  if (left != 0) raise<ValueError>({.problem = fmt::format("{} tokens of {} are no expert's", left, x.size(0))});
  const NoGradGuard unrecorded;
  const DType dtype = is_fp8(x.dtype()) ? x.dtype() : DType::f8_e4m3fn;
  QuantizedSplits result;
  int64_t begin = 0;
  for (const int64_t t : tokens_per_expert) {
    const Tensor rows = x.narrow(0, begin, t).t();
    const Tensor scales = scale.defined() ? scale.narrow(0, begin, t).t() : Tensor();
    result.out.push_back(make(rows.sizes(), dtype, x.device()));
    result.scale.push_back(make(Dims{t / block_size, x.size(1)}, DType::f32, x.device()));
    quantize_into(result.out.back(), result.scale.back().t(), {rows, scales, column_sides}, row_sides, 0, pow2);
    begin += t;
  }
  return result;
}

namespace {

Quantized stacked(std::span<const Tensor> tensors, bool pow2, bool transposed) {
  if (tensors.empty()) raise<ValueError>({.problem = "no tensors to stack"});
  for (const Tensor& t : tensors) {
    check_number("tensors", t);
    expect_matrix("tensors", t);
    check_same_device({&t, &tensors[0]});
    expect_shape("tensors", t, tensors[0].shape());
  }
  const Tensor& first = tensors[0];
  if (first.size(0) % block_size != 0 || first.size(1) % block_size != 0) {
    raise_rank("tensors", fmt::format("sizes divisible by {}", block_size), first);
  }
  const NoGradGuard unrecorded;
  const int64_t m = first.size(transposed ? 1 : 0), n = first.size(transposed ? 0 : 1), count = std::ssize(tensors);
  Quantized out{make(Dims{count * m, n}, DType::f8_e4m3fn, first.device()),
                make(Dims{count * m / block_size, n / block_size}, DType::f32, first.device())};
  for (int64_t i = 0; i < count; ++i) {
    const Tensor x = tensors[static_cast<size_t>(i)].detach();
    quantize_into(out.q.narrow(0, i * m, m), out.scale.narrow(0, i * m / block_size, m / block_size),
                  {transposed ? x.t() : x, {}}, tile_sides, 0, pow2);
  }
  return out;
}

}  // namespace

Quantized fused_stack_quant(std::span<const Tensor> tensors, bool pow2, Location where) {
  const CallScope call("fused_stack_quant", where);
  return stacked(tensors, pow2, false);
}
Quantized fused_stack_transpose_quant(std::span<const Tensor> tensors, bool pow2, Location where) {
  const CallScope call("fused_stack_transpose_quant", where);
  return stacked(tensors, pow2, true);
}

Quantized fused_act_dequant_transpose_act_quant(const Tensor& q, const Tensor& scale, const RequantOptions& options,
                                                Location where) {
  const CallScope call("fused_act_dequant_transpose_act_quant", where);
  expect_matrix("q", checked(q));
  require_codes("q", q, scale, row_sides);
  const NoGradGuard unrecorded;
  const int64_t m = q.size(0), n = q.size(1), width = options.pad_to_8 ? blocks_of(m, 8) * 8 : m;
  Quantized out{make(Dims{n, width}, q.dtype(), q.device()), fresh_scale(row_sides, n, m, q.device())};
  if (width > m) out.q.narrow(1, m, width - m).copy_(zeros({n, width - m}, {DType::f32, q.device()}));
  quantize_into(out.q.narrow(1, 0, m), out.scale, {q.t(), scale.t(), column_sides}, row_sides, 0, options.pow2);
  return out;
}

// ---- swiglu times a weight ------------------------------------------------------------------------------------------

namespace {

Tensor half_of(const Tensor& x, int64_t i) { return x.narrow(1, i * (x.size(1) / 2), x.size(1) / 2); }

void check_gated(const char* what, const Tensor& x, const Tensor& prob) {
  check_number(what, x);
  expect_shape(what, x, x.dim() == 2 && x.size(1) % 2 == 0, "[m, 2 n]");
  if (!prob.defined()) return;
  expect_dtype("prob", prob, DType::f32);
  expect_shape("prob", prob, Dims(x.size(0)));
  check_same_device({&x, &prob});
}

/// swiglu of x's halves in f32.
Tensor gated(const Tensor& x) { return swiglu(half_of(x, 0).to(DType::f32), half_of(x, 1).to(DType::f32)); }

}  // namespace

Quantized fused_weighted_swiglu_act_quant(const Tensor& given, const std::optional<Tensor>& given_prob, bool pow2,
                                          Location where) {
  const CallScope call("fused_weighted_swiglu_act_quant", where);
  const Tensor x = checked(given).detach(), prob = given_prob.value_or(Tensor());
  check_gated("x", x, prob);
  const NoGradGuard unrecorded;
  const int64_t m = x.size(0), n = x.size(1) / 2;
  Quantized out{make(Dims{m, n}, DType::f8_e4m3fn, x.device()), fresh_scale(row_sides, m, n, x.device())};
  if (out.q.numel() == 0) return out;
  const auto kernel = kernels(x.raw_view()).weighted_swiglu_quantize;
  if (kernel != nullptr) {
    kernel(out.q.raw_view(), out.scale.raw_view(), x.raw_view(), prob.defined() ? prob.raw_view() : View(), pow2);
    return out;
  }
  Tensor y = gated(x);
  if (prob.defined()) y = y * prob.unsqueeze(1);
  quantize_into(out.q, out.scale, {y.to(x.dtype()), {}}, row_sides, 0, pow2);
  return out;
}

WeightedSwigluBackward fused_swiglu_weighted_bwd(const Tensor& given, const Tensor& given_g, const Tensor& given_prob,
                                                 Location where) {
  const CallScope call("fused_swiglu_weighted_bwd", where);
  const Tensor x = checked(given).detach(), g = checked(given_g).detach(), prob = checked(given_prob).detach();
  check_gated("o1", x, prob);
  expect_dtype("do2", g, x.dtype());
  check_same_device({&x, &g});
  const Dims half{x.size(0), x.size(1) / 2};
  expect_shape("do2", g, half);
  const NoGradGuard unrecorded;
  const auto kernel = kernels(x.raw_view()).weighted_swiglu_gradient;
  if (kernel != nullptr) {
    WeightedSwigluBackward out{make(x.sizes(), x.dtype(), x.device()), make(Dims(half[0]), DType::f32, x.device()),
                               make(half, x.dtype(), x.device())};
    kernel(out.do1.raw_view(), out.dprob.raw_view(), out.o2.raw_view(), x.raw_view(), g.raw_view(), prob.raw_view());
    return out;
  }
  const Tensor a = half_of(x, 0).to(DType::f32), b = half_of(x, 1).to(DType::f32), in = g.to(DType::f32);
  const Tensor weight = prob.unsqueeze(1), y = swiglu(a, b), s = sigmoid(a), d = in * weight;
  const Tensor da = d * b * s * (1 + clip(a, -1e9, 1e9) * (1 - s)), db = d * (maximum(a, -1e9) * s);
  return {cat({da, db}, 1).to(x.dtype()), sum(in * y, {1}), (y * weight).to(x.dtype())};
}

}  // namespace weft
