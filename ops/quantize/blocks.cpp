#include "blocks-inl.hpp"

#include <algorithm>
#include <cmath>

#include "../../autograd/mode.hpp"
#include "../create.hpp"
#include "../pad.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../special.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

BlockSides sides_of(QuantBlock block, int64_t m, int64_t n) {
  if (block == QuantBlock::tensor) return {std::max<int64_t>(m, 1), std::max<int64_t>(n, 1)};
  return {block == QuantBlock::row_1x128 ? 1 : block_size, block_size};
}

Dims scale_shape(BlockSides sides, int64_t m, int64_t n) {
  return Dims{blocks_of(m, sides.rows), blocks_of(n, sides.columns)};
}

void require_codes(const char* what, const Tensor& codes, const Tensor& scale, BlockSides sides) {
  expect_dtype(what, codes, is_fp8(codes.dtype()), "an 8-bit float");
  expect_dtype("scale", checked(scale), DType::f32);
  check_same_device({&codes, &scale});
  const Dims shape = scale_shape(sides, codes.size(0), codes.size(1));
  expect_shape("scale", scale, shape);
}

namespace {

float largest_code(DType dtype) { return dtype == DType::f8_e4m3fn ? 448.0f : 57344.0f; }

/// [m, n] with zeros up to whole blocks, as [blocks, rows, blocks, columns].
Tensor in_blocks(const Tensor& x, BlockSides sides) {
  const int64_t down = blocks_of(x.size(0), sides.rows), across = blocks_of(x.size(1), sides.columns);
  const Tensor padded = pad(x, {0, across * sides.columns - x.size(1), 0, down * sides.rows - x.size(0)});
  return padded.reshape({down, sides.rows, across, sides.columns});
}
Tensor out_of_blocks(const Tensor& blocks, int64_t m, int64_t n) {
  const Tensor whole = blocks.reshape({blocks.size(0) * blocks.size(1), blocks.size(2) * blocks.size(3)});
  return whole.narrow(0, 0, m).narrow(1, 0, n);
}
/// For the output [blocks, blocks] of in_blocks.
Tensor beside_blocks(const Tensor& scale) { return scale.unsqueeze(1).unsqueeze(3); }

/// The rule of kernels, by ops.
Tensor multipliers(const Tensor& blocks, DType dtype, double eps, bool pow2) {
  const Tensor size = abs(blocks);
  const Tensor largest = maximum(amax(where(isfinite(size), size, 0), {1, 3}, true), eps);
  Tensor s = largest_code(dtype) / largest;
  if (pow2) {
    // An infinity is as good as 2¹²⁶, and has no exponent.
    const Tensor bounded = minimum(s, 0x1p127);
    s = bounded / (2 * frexp(bounded).mantissa);
  }
  return where(largest == 0, 1, minimum(s, 0x1p126));
}

void quantize_by_ops(const Tensor& codes, const Tensor& scale, const Source& source, BlockSides sides, double eps,
                     bool pow2) {
  Tensor x = source.x;
  if (source.scale.defined()) x = dequantized(x, source.scale, source.sides, DType::bf16);
  const Tensor blocks = in_blocks(x.to(DType::f32), sides), s = multipliers(blocks, codes.dtype(), eps, pow2);
  const double largest_number = largest_code(codes.dtype());
  const Tensor scaled = clip(out_of_blocks(blocks * s, x.size(0), x.size(1)), -largest_number, largest_number);
  codes.copy_(scaled.to(codes.dtype()));
  scale.copy_((1 / s).reshape(scale.shape()));
}

View view_or_none(const Tensor& t) { return t.defined() ? t.raw_view() : View(); }

}  // namespace

void quantize_into(const Tensor& codes, const Tensor& scale, const Source& source, BlockSides sides, double eps,
                   bool pow2) {
  if (codes.numel() == 0) return;
  const NoGradGuard unrecorded;
  const auto kernel = kernels(codes.raw_view()).quantize_blocks;
  if (kernel == nullptr) return quantize_by_ops(codes, scale, source, sides, eps, pow2);
  kernel(codes.raw_view(), scale.raw_view(), source.x.raw_view(), view_or_none(source.scale), sides.rows, sides.columns,
         source.sides.rows, source.sides.columns, eps, pow2);
}

Tensor dequantized(const Tensor& codes, const Tensor& scale, BlockSides sides, DType dtype) {
  const NoGradGuard unrecorded;
  Tensor out = make(codes.sizes(), dtype, codes.device());
  if (out.numel() == 0) return out;
  const auto kernel = kernels(codes.raw_view()).dequantize_blocks;
  if (kernel != nullptr && dtype != DType::f64) {
    kernel(out.raw_view(), codes.raw_view(), scale.raw_view(), sides.rows, sides.columns);
    return out;
  }
  const DType wide = dtype == DType::f64 ? dtype : DType::f32;
  const Tensor blocks = in_blocks(codes.to(wide), sides) * beside_blocks(scale.to(wide));
  return out_of_blocks(blocks, codes.size(0), codes.size(1)).to(dtype).contiguous();
}

// ---- quant_blockwise ------------------------------------------------------------------------------------------------

namespace {

void check_quant(const Tensor& x, const QuantOptions& options) {
  const DType t = checked(x).dtype();
  expect_dtype("x", x, t == DType::f16 || t == DType::bf16 || t == DType::f32, "float16, bfloat16 or float32");
  expect_matrix("x", x);
  if (!is_fp8(options.dtype)) raise_dtype("dtype", "float8_e4m3fn or float8_e5m2", options.dtype);
  if (!(options.eps >= 0) || !std::isfinite(static_cast<float>(options.eps))) {
    raise_value("eps", "a finite float32 of at least 0", options.eps);
  }
}

Quantized quantized(const Tensor& x, QuantBlock block, const QuantOptions& options) {
  const int64_t m = x.size(0), n = x.size(1);
  const BlockSides sides = sides_of(block, m, n);
  Quantized out{make(x.sizes(), options.dtype, x.device()), {}};
  if (block == QuantBlock::tensor) {
    out.scale = make(Dims{}, DType::f32, x.device());
    if (x.numel() == 0) out.scale.fill_(1);
    quantize_into(out.q, out.scale.reshape({1, 1}), {x, {}}, sides, options.eps, options.pow2);
    return out;
  }
  const Dims shape = scale_shape(sides, m, n);
  const Dims kept = options.transpose_scale ? Dims{shape[1], shape[0]} : shape;
  out.scale = make(kept, DType::f32, x.device());
  const Tensor scale = options.transpose_scale ? out.scale.t() : out.scale;
  // A block without elements has the scale of one of zeros.
  if (x.numel() == 0) out.scale.fill_(1);
  quantize_into(out.q, scale, {x, {}}, sides, options.eps, options.pow2);
  return out;
}

/// The blocks that a scale of this shape is of.
BlockSides sides_by_scale(const Tensor& q, const Tensor& scale) {
  if (scale.dim() == 0) return sides_of(QuantBlock::tensor, q.size(0), q.size(1));
  const QuantBlock block =
      scale.dim() == 2 && scale.size(0) == q.size(0) ? QuantBlock::row_1x128 : QuantBlock::tile_128x128;
  return sides_of(block, q.size(0), q.size(1));
}

}  // namespace

QuantOut quant_blockwise(const Tensor& given, QuantBlock block, const QuantOptions& options, Location where) {
  const CallScope call("quant_blockwise", where);
  check_quant(given, options);
  const Tensor x = given.detach();
  const NoGradGuard unrecorded;
  const Quantized straight = quantized(x, block, options);
  if (!options.also_transposed) {
    const Tensor none = make(Dims{0, 0}, options.dtype, x.device());
    return {straight.q, straight.scale, none, make(Dims{0, 0}, DType::f32, x.device())};
  }
  const Quantized turned = quantized(x.t(), block, options);
  return {straight.q, straight.scale, turned.q, turned.scale};
}

Tensor dequant_blockwise(const Tensor& q, const Tensor& scale, DType dtype, Location where) {
  const CallScope call("dequant_blockwise", where);
  expect_matrix("q", checked(q));
  if (!is_floating(dtype) || is_storage_only(dtype)) {
    raise_dtype("dtype", "float16, bfloat16, float32 or float64", dtype);
  }
  const BlockSides sides = sides_by_scale(q, checked(scale));
  const Tensor table = scale.dim() == 0 ? scale.reshape({1, 1}) : scale;
  if (q.numel() > 0 || scale.dim() != 0) require_codes("q", q, table, sides);
  return dequantized(q, table, sides, dtype);
}

}  // namespace weft
