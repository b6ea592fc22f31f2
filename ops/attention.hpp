// Attention.
#pragma once

#include <optional>
#include <tuple>

#include "../tensor/index.hpp"

namespace weft {

struct AttentionOptions {
  /// Broadcasts to [..., L, S]: bool, where true takes part, or a float that is added to the scores.
  Tensor mask = {};
  /// Of the weights.
  double dropout_p = 0;
  /// Query i sees keys 0 … i, besides what the mask says.
  bool causal = false;
  /// 1 / sqrt(E) unless given.
  std::optional<double> scale = {};
  /// The heads of k and v, their third dimension from the end, may be a divisor of q's.
  bool enable_gqa = false;
};
/// softmax(scale · q · kᵀ + mask) · v, as PyTorch's function of that name. q is [..., L, E], k [..., S, E] and v
/// [..., S, Ev] with batch dimensions that broadcast; the result is [..., L, Ev] in q's dtype. A query that sees no key
/// gives zeros and zero gradients. Scores of 16-bit floats are computed in f32. ShapeError, DTypeError, ValueError.
WEFT_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                             const AttentionOptions& options = {}, Location where = {});

/// What multi_head_attention_forward multiplies by; undefined where there is none.
struct HeadsParameters {
  /// [3 * width, width], or one weight each for keys and values of other widths.
  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight;
  /// [3 * width]
  Tensor in_proj_bias;
  /// [1, 1, width]: a key and a value behind the others.
  Tensor bias_k, bias_v;
  /// [width, width] and [width]
  Tensor out_proj_weight, out_proj_bias;
  /// A key and a value of zeros behind all.
  bool add_zero_attn = false;
};
/// Of one call. Masks are bool, where true is NOT attended to, or floats that are added to the scores.
struct HeadsCall {
  /// [batch, keys], or [keys] without a batch.
  Tensor key_padding_mask = {};
  /// Whether the weights are wanted, which takes the slow way.
  bool need_weights = true;
  /// [queries, keys] or [batch * heads, queries, keys].
  Tensor attn_mask = {};
  /// Over the heads.
  bool average_attn_weights = true;
  /// Query i sees keys 0 … i; where there is an attn_mask, that one says it.
  bool is_causal = false;
};
/// weights are [batch, queries, keys], or [batch, heads, queries, keys] where they are no average; undefined where they
/// are not wanted.
struct HeadsResult {
  Tensor output, weights;
  auto tensors() { return std::tie(output, weights); }
};
/// Attention of several heads (Vaswani et al. 2017), as PyTorch's function of that name: query [length, batch, width],
/// key [keys, batch, any], value [keys, batch, any], or all without the batch, are projected, split over the heads,
/// attended to and joined. A query that sees no key gets zeros, where PyTorch has NaN. ValueError unless num_heads
/// divides the width; ShapeError and DTypeError for operands and masks that do not fit.
WEFT_API HeadsResult multi_head_attention_forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                  int64_t num_heads, const HeadsParameters& parameters,
                                                  const HeadsCall& call = {}, double dropout_p = 0,
                                                  Location where = {});

}  // namespace weft
