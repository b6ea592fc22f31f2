// A linear layer with three products of 8-bit floats. The summed dimension is split into blocks of 128: columns of x
// and weight in forward, outputs for the gradient of x, rows for the gradient of the weight (DeepSeek-AI 2024,
// DeepSeek-V3 Technical Report, 3.3).
#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../autograd/node.hpp"
#include "../../ops/detail/autocast.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/matmul.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/quantize.hpp"
#include "../../ops/reduce.hpp"
#include "weight_format-inl.hpp"

namespace weft::nn::detail {

namespace {

constexpr BlockwiseGemmOptions by_tiles{.a_block = QuantBlock::row_1x128, .b_block = QuantBlock::tile_128x128};
constexpr BlockwiseGemmOptions by_rows{.a_block = QuantBlock::row_1x128, .b_block = QuantBlock::row_1x128};

/// [..., n] as a matrix.
Tensor as_matrix(const Tensor& x) {
  const int64_t n = x.size(-1);
  int64_t rows = 1;
  for (int d = 0; d + 1 < x.dim(); ++d) rows *= x.size(d);
  return x.reshape({rows, n});
}

struct Fp8LinearBackward {
  Tensor weight, weight_scale;  ///< codes in tiles
  Tensor turned, turned_scale;  ///< codes of the transpose of x
  Dims x_shape;
  DType x_dtype, weight_dtype;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) const {
    if (recording()) {
      raise<NotImplementedError>({.problem = "a layer in 8-bit floats has no second derivative"});
    }
    const Tensor g = as_matrix(incoming[0]);
    const QuantOut q = quant_blockwise(g, QuantBlock::row_1x128, {.also_transposed = self.wants(1)});
    if (self.wants(0)) {
      const Tensor dx = gemm_fp8_blockwise(q.q, q.scale, weight.t(), weight_scale.t(), x_dtype, by_tiles);
      outgoing[0] = dx.reshape(x_shape);
    }
    if (self.wants(1)) {
      outgoing[1] = gemm_fp8_blockwise(q.q_transposed, q.scale_transposed, turned, turned_scale, weight_dtype, by_rows);
    }
    if (self.edge_count > 2 && self.wants(2)) outgoing[2] = sum(g, {0});
  }
};

Tensor computable(const Tensor& x) { return autocasting() ? weft::detail::lowered(x) : x; }

}  // namespace

Tensor Fp8Format::linear_merged(const Tensor& given, const Tensor& weight, const Tensor& bias, Location where) const {
  const CallScope call("fp8_linear", where);
  const Tensor x = computable(checked(given));
  const weft::detail::AutocastModeGuard outside({});
  if (x.dim() == 0 || x.size(-1) != weight.size(1)) {
    raise<ShapeError>(
        {.problem = fmt::format("x of shape {} for a weight of {}", x.shape().text(), weight.shape().text())});
  }
  if (weight.numel() == 0) return weft::linear(x, weight, bias);
  const bool records = should_record(x, weight, bias);
  Tensor y;
  Fp8LinearBackward backward;
  {
    const NoGradGuard unrecorded;
    const Tensor rows = as_matrix(x);
    const QuantOut q =
        quant_blockwise(rows, QuantBlock::row_1x128, {.also_transposed = records && weight.requires_grad()});
    const QuantOut w = quant_blockwise(weight, QuantBlock::tile_128x128);
    // The bias initialises the accumulator, which cannot be float16.
    const DType sums = bias.defined() && x.dtype() == DType::f16 ? DType::f32 : x.dtype();
    BlockwiseGemmOptions options = by_tiles;
    if (bias.defined()) {
      options.out = bias.to(sums).expand({rows.size(0), weight.size(0)}).clone();
      options.accumulate = true;
    }
    y = gemm_fp8_blockwise(q.q, q.scale, w.q, w.scale, sums, options).to(x.dtype());
    Dims shape = x.shape();
    shape[shape.size() - 1] = weight.size(0);
    y = y.reshape(shape);
    backward = {w.q, w.scale, q.q_transposed, q.scale_transposed, x.shape(), x.dtype(), weight.dtype()};
  }
  if (!records) return y;
  if (bias.defined()) record(y, std::move(backward), x, weight, bias.to(x.dtype()));
  else record(y, std::move(backward), x, weight);
  return y;
}

}  // namespace weft::nn::detail
