// Tensors in 8-bit floats with a scale for each block, products of them, and weights of 8 or 4 bits for inference.
// docs/quantization.md has formats, error bounds and a walk through quantising a model.
//
//   const auto [q, scale, qt, scale_t] = quant_blockwise(x);                        // x [m, k], 1 x 128
//   const auto w = quant_blockwise(weight, QuantBlock::tile_128x128);                    // weight [n, k]
//   Tensor y = gemm_fp8_blockwise(q, scale, w.q, w.scale, bf16);                    // x weightᵀ
//
// A block is multiplied by s = 448 / max |x| (57344 in float8_e5m2), by 1 where that is 0, and by 2¹²⁶ at most; codes
// are x · s, rounded to nearest and saturated, and the scale that is kept, in f32, is 1 / s. NaN and infinities do not
// count in max |x|; NaN stays NaN, an infinity becomes the largest number. Nothing here is differentiable but
// quantized_linear, in x; x + (dequant_blockwise(q, scale, x.dtype()) - x).detach() passes gradients straight through.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "../tensor/index.hpp"

namespace weft {

/// The elements that share a scale: a whole matrix, 128 columns of a row, or 128 columns of 128 rows; fewer at the
/// edges.
enum class QuantBlock : uint8_t { tensor, row_1x128, tile_128x128 };

struct QuantOptions {
  /// max |x| of a block is taken to be at least this.
  double eps = 0;
  /// s is rounded down to a power of two.
  bool pow2 = true;
  /// The scale comes as [⌈n / 128⌉, m]: that of rows is contiguous along them.
  bool transpose_scale = false;
  /// Also quantises the transpose of x, computed from x, with blocks along m.
  bool also_transposed = false;
  DType dtype = DType::f8_e4m3fn;
};

struct QuantOut {
  Tensor q;             ///< [m, n], of the 8-bit dtype
  Tensor scale;         ///< f32: [], [m, ⌈n / 128⌉] or [⌈m / 128⌉, ⌈n / 128⌉]
  Tensor q_transposed;  ///< [n, m], or [0, 0] unless it was asked for
  Tensor scale_transposed;
};

/// x [m, n], f16, bf16 or f32, in blocks. ShapeError for another rank, DTypeError, ValueError for eps below 0 or NaN.
WEFT_API QuantOut quant_blockwise(const Tensor& x, QuantBlock block = QuantBlock::row_1x128,
                                  const QuantOptions& options = {}, Location where = {});
/// q [m, n] · scale, in f16, bf16, f32 or f64; the blocks follow from scale's shape. ShapeError, DTypeError.
[[nodiscard]] WEFT_API Tensor dequant_blockwise(const Tensor& q, const Tensor& scale, DType dtype = DType::bf16,
                                                Location where = {});

/// Codes with their scales.
struct Quantized {
  Tensor q, scale;
};
struct QuantizedSplits {
  std::vector<Tensor> out, scale;
};
/// dequant_blockwise of rows of blocks to bf16: q [m, n], scale [m, ⌈n / 128⌉] in f32. Raises ShapeError for other
/// shapes, DTypeError for other dtypes.
[[nodiscard]] WEFT_API Tensor fused_act_dequant(const Tensor& q, const Tensor& scale, Location where = {});
/// The transpose of each expert's rows of x [m, k], quantised along 128 tokens: out [k, t], scale [t / 128, k], for
/// each t of tokens_per_expert. x is bf16, f16 or f32, or an 8-bit float with a scale [m, ⌈k / 128⌉], which is rounded
/// to bf16 first. ValueError unless every t is a multiple of 128 and they add up to m; ShapeError, DTypeError.
WEFT_API QuantizedSplits fused_transpose_split_quant(const Tensor& x, const std::optional<Tensor>& scale,
                                                     std::span<const int64_t> tokens_per_expert, bool pow2 = true,
                                                     Location where = {});
/// Matrices [m, n] of bf16, f16 or f32 below one another, [count · m, n], in tiles; or their transposes, [count · n,
/// m]. m and n are multiples of 128, so that no tile has parts of two. ValueError for no tensors; ShapeError,
/// DTypeError.
WEFT_API Quantized fused_stack_quant(std::span<const Tensor> tensors, bool pow2 = true, Location where = {});
WEFT_API Quantized fused_stack_transpose_quant(std::span<const Tensor> tensors, bool pow2 = true, Location where = {});
struct RequantOptions {
  bool pow2 = true;
  /// Columns of 0 fill the result up to a multiple of 8.
  bool pad_to_8 = false;
};
/// The transpose of fused_act_dequant(q, scale), quantised in rows of blocks: [n, m] and [n, ⌈m / 128⌉], in q's dtype.
/// Errors as fused_act_dequant.
WEFT_API Quantized fused_act_dequant_transpose_act_quant(const Tensor& q, const Tensor& scale,
                                                         const RequantOptions& options = {}, Location where = {});
/// swiglu(x's left half, x's right half) · prob, rounded to x's dtype once and quantised in rows of blocks: x [m, 2n],
/// bf16, f16 or f32,
/// prob [m] f32. ShapeError, DTypeError.
WEFT_API Quantized fused_weighted_swiglu_act_quant(const Tensor& x, const std::optional<Tensor>& prob = {},
                                                   bool pow2 = true, Location where = {});
struct WeightedSwigluBackward {
  Tensor do1;    ///< [m, 2n], of o1's dtype
  Tensor dprob;  ///< [m] f32: the sums of do2 · swiglu
  Tensor o2;     ///< [m, n], of o1's dtype: swiglu · prob
};
/// The gradients of swiglu(o1) · prob for o1 [m, 2n] and prob [m] from do2 [m, n], and the value anew. o1 and do2 are
/// of one dtype, bf16, f16 or f32, prob f32. ShapeError, DTypeError.
WEFT_API WeightedSwigluBackward fused_swiglu_weighted_bwd(const Tensor& o1, const Tensor& do2, const Tensor& prob,
                                                          Location where = {});

struct BlockwiseGemmOptions {
  /// Written into and returned, where it is given; of out_dtype, [m, n].
  std::optional<Tensor> out = {};
  /// The product is added to `out`, which then has to be given, in f32 or bf16.
  bool accumulate = false;
  QuantBlock a_block = QuantBlock::row_1x128, b_block = QuantBlock::tile_128x128;
  /// Not implemented.
  std::optional<Tensor> bias = {};
};
/// a bᵀ, [m, n], for codes a [m, k] and b [n, k] with scales in rows or tiles of blocks: the sum over each 128 columns
/// is computed in f32 and scaled; the total is rounded once to f16, bf16 or f32. Raises DTypeError, ShapeError;
/// ValueError for accumulate without out or in f16, and for other blocks; NotImplementedError for a bias.
[[nodiscard]] WEFT_API Tensor gemm_fp8_blockwise(const Tensor& a, const Tensor& a_scale, const Tensor& b,
                                                 const Tensor& b_scale, DType out_dtype = DType::bf16,
                                                 const BlockwiseGemmOptions& options = {}, Location where = {});

struct Fp8MlpOptions {
  /// Each weight is stored [out, in], which products read as it is; else it is copied first.
  bool transposed_weights = false;
  /// Measured scales of the codes of x and of the intermediate activations, f32 []; larger values are clipped. If
  /// undefined: max |finite| / fp8_max of each row.
  std::optional<Tensor> x_scale = {}, hidden_scale = {};
  /// The largest code of activations: 448, or 240 on devices with infinities in e4m3.
  double fp8_max = 448;
};
/// fused_mlp with silu, of 8-bit floats: (silu(x gate) ⊙ (x up)) down for x [..., H], f16, bf16 or f32: [..., H'] of
/// x's dtype. Weights are codes with scales, f32 [] or one for each output: proj is the gate [H, F] beside `up`, or
/// without it both [H, 2 F], the gate first; down [F, H']. x and the intermediate activations are quantised to
/// float8_e4m3fn; sums, silu and the product of gate and up are in f32. Not differentiable. Raises ShapeError,
/// DTypeError; ValueError unless 0 < fp8_max <= 448.
[[nodiscard]] WEFT_API Tensor fused_fp8_mlp(const Tensor& x, const Quantized& proj, const std::optional<Quantized>& up,
                                            const Quantized& down, const Fp8MlpOptions& options = {},
                                            Location where = {});

// ---- weights of 8 and 4 bits ----------------------------------------------------------------------------------------

struct WeightQuantOptions {
  int64_t bits = 8;  ///< or 4
  /// So many columns of a row share a scale; all of them where it is 0. Even with 4 bits.
  int64_t group_size = 128;
  /// Codes are centred at 0, from -127 to 127 or -7 to 7; otherwise they cover the range from the smallest to the
  /// largest weight.
  bool symmetric = true;
};
struct QuantizedWeight {
  Tensor codes;  ///< i8 [n, k], or u8 where not symmetric; with 4 bits u8 [n, ⌈k / 2⌉], the first of a pair in the low
                 ///< half
  Tensor scale;  ///< [n, ⌈k / group_size⌉] f32
  Tensor zero;   ///< the same: what code 0 stands for; [0, 0] where symmetric
};
/// weight [n, k], floating, as codes · scale + zero; 4-bit codes without zero are stored with an offset of 8. The error
/// of each weight is at most half a scale. Computed on the host. Raises ShapeError, DTypeError; ValueError for other
/// bits, a group size below 0 or odd with 4 bits, and weights that are not finite.
WEFT_API QuantizedWeight quantize_weight(const Tensor& weight, const WeightQuantOptions& options = {},
                                         Location where = {});

struct QuantizedLinearOptions {
  std::optional<Tensor> zero = {};
  std::optional<Tensor> bias = {};  ///< [n], of x's dtype
  int64_t bits = 8;
  int64_t group_size = 128;
};
/// The weight [n, k] decoded from codes, scale and zero, in a floating dtype. Raises ShapeError if codes, scale or zero
/// do not fit, DTypeError unless codes are u8 and the others f32 or f64. Raises ValueError for other numbers of bits
/// and for group sizes that do not fit.
[[nodiscard]] WEFT_API Tensor dequantize_weight(const Tensor& codes, const Tensor& scale, int64_t columns,
                                                const QuantizedLinearOptions& options = {}, DType dtype = DType::f32,
                                                Location where = {});
/// x [..., k] · weightᵀ + bias, [..., n], of x's dtype. Up to eight rows read the codes as they are, so that a call
/// takes the time of reading them; more rows get the weight in panels of x's dtype. It has gradients by x and bias, and
/// by scale and zero where these want one; scale and zero are f32, or f64.
/// ShapeError, DTypeError, ValueError as quantize_weight.
[[nodiscard]] WEFT_API Tensor quantized_linear(const Tensor& x, const Tensor& codes, const Tensor& scale,
                                               const QuantizedLinearOptions& options = {}, Location where = {});

}  // namespace weft
