// Layers of transformers in one op each: fewer passes over memory, and nothing of full size in between. Each equals the
// composition in its formula up to rounding, and runs it on devices without the kernel. They save only their inputs for
// backward and recompute the rest. docs/fused.md says when they are faster.
#pragma once

#include <tuple>

#include "../backends/activation.hpp"
#include "../tensor/index.hpp"

namespace weft {

/// sum = x + residual (+ bias [H]), rounded to x's dtype, and its rms_norm with weight [H] over the last dimension:
/// (normed, sum), both of x's shape and dtype. bias and weight may be undefined. One read of the operands and one write
/// of the results. ShapeError unless x and residual are [..., H] alike, DTypeError unless of one dtype.
WEFT_API std::tuple<Tensor, Tensor> fused_rms_norm_residual(const Tensor& x, const Tensor& residual, const Tensor& bias,
                                                            const Tensor& weight, double eps, Location where = {});

/// (activation(x gate) ⊙ (x up)) down for x [..., H]: [..., H']. `proj` is the gate [H, F] beside `up` [H, F] or,
/// without `up`, both [H, 2 F], the gate first; down [F, H']. With `transposed_weights` each is stored [out, in], as
/// linear has it. All are floats of one dtype; products are accumulated and activated in f32, and may be rounded to the
/// dtype in between (Shazeer 2020). ShapeError, DTypeError.
[[nodiscard]] WEFT_API Tensor fused_mlp(const Tensor& x, const Tensor& proj, const Tensor& up, const Tensor& down,
                                        bool transposed_weights = false, Activation activation = Activation::silu,
                                        Location where = {});

/// fused_mlp(rms_norm(x, ln_weight, eps), proj, {}, down): proj contains gate and up, ln_weight is [H]. Shapes, dtypes
/// and errors as fused_mlp.
[[nodiscard]] WEFT_API Tensor fused_rms_mlp(const Tensor& x, const Tensor& ln_weight, const Tensor& proj,
                                            const Tensor& down, double eps, bool transposed_weights = false,
                                            Location where = {});

/// r = x + residual, rounded to their dtype: (fused_rms_mlp(r), r), with the bits of the two ops. Raises ShapeError
/// unless x and residual have one shape, and the errors of fused_mlp.
WEFT_API std::tuple<Tensor, Tensor> fused_rms_mlp_res(const Tensor& x, const Tensor& ln_weight, const Tensor& proj,
                                                      const Tensor& down, const Tensor& residual, double eps,
                                                      bool transposed_weights = false, Location where = {});
/// The same with r written into `residual`. Errors are raised before the write: those of fused_rms_mlp_res, and those
/// of in-place ops.
[[nodiscard]] WEFT_API Tensor fused_rms_mlp_res_(const Tensor& x, const Tensor& ln_weight, const Tensor& proj,
                                                 const Tensor& down, const Tensor& residual, double eps,
                                                 bool transposed_weights = false, Location where = {});

/// The inputs of attention: rms_norm(src [B, S, H]) times the transpose of qkv_weight [(heads + 2 fewer) head_dim, H],
/// with the rows of all q heads first, then k's, then v's. q [B, S, heads, head_dim] and k are rotated by rope as in
/// rotary_embedding; k and v are [B, S, fewer, head_dim]. rope is [2, B or 1, S or 1, 1, head_dim]. ShapeError unless
/// heads is a multiple of fewer.
WEFT_API std::tuple<Tensor, Tensor, Tensor> fused_rms_qkv_rope(const Tensor& src, const Tensor& ln_weight,
                                                               const Tensor& qkv_weight, const Tensor& rope, double eps,
                                                               int64_t head_dim, int64_t num_heads,
                                                               bool interleaved = false, Location where = {});
/// The same bits with heads before S: q [B, heads, S, head_dim], k and v [B, fewer, S, head_dim].
WEFT_API std::tuple<Tensor, Tensor, Tensor> fused_rms_qkv_rope_transposed(const Tensor& src, const Tensor& ln_weight,
                                                                          const Tensor& qkv_weight, const Tensor& rope,
                                                                          double eps, int64_t head_dim,
                                                                          int64_t num_heads, bool interleaved = false,
                                                                          Location where = {});
/// The same bits with k and v in one tensor: q [B, S, heads, head_dim] and kv [2, B, S, fewer, head_dim].
WEFT_API std::tuple<Tensor, Tensor> fused_rms_qkv_rope_stacked(const Tensor& src, const Tensor& ln_weight,
                                                               const Tensor& qkv_weight, const Tensor& rope, double eps,
                                                               int64_t head_dim, int64_t num_heads,
                                                               bool interleaved = false, Location where = {});

}  // namespace weft
