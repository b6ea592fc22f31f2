// Attention layers.
#pragma once

#include "../ops/attention.hpp"
#include "layers.hpp"

namespace weft::nn {

struct AttentionOptions {
  /// Each position attends only to itself and earlier positions.
  bool causal = true;
  /// Probability of dropout on the attention weights and on the output.
  double dropout = 0;
  bool bias = true;
};

/// Self-attention with `heads` heads: x [batch, length, width] -> the same shape. `qkv` [3 · width, width] computes
/// queries, keys and values, each split over the heads; `proj` [width, width] combines the outputs of the heads
/// (Vaswani et al. 2017). Raises ValueError unless `heads` divides `width`; ShapeError for x of another rank or width.
class WEFT_API SelfAttention : public Layer<SelfAttention> {
 public:
  SelfAttention(int64_t width, int64_t heads, AttentionOptions options = {}, Location where = {});
  template <class = void>
  SelfAttention(int64_t, int64_t, ...) = delete;  // options have names and an order: {.causal = true}
  Tensor forward(const Tensor& x, Location where) const;

  Linear qkv, proj;
  Dropout dropout;

 private:
  int64_t heads_;
  AttentionOptions options_;
};

struct MultiheadAttentionOptions {
  /// Dropout probability of the attention weights in training.
  double dropout = 0;
  bool bias = true;
  /// Appends a learned key and value.
  bool add_bias_kv = false;
  /// Appends a key and a value of zeros, after all others.
  bool add_zero_attn = false;
  /// Widths of keys and values; 0 means embed_dim.
  int64_t kdim = 0, vdim = 0;
  /// Operands and output are [batch, length, width].
  bool batch_first = false;
};
using MultiheadAttentionCall = HeadsCall;
using MultiheadAttentionResult = HeadsResult;

/// Multi-head attention with PyTorch's names, options and shapes: query [length, batch, embed_dim], key [keys, batch,
/// kdim], value [keys, batch, vdim], or all without the batch. Parameters: in_proj_weight [3 * embed_dim, embed_dim],
/// or q_proj_weight, k_proj_weight and v_proj_weight if kdim or vdim differs from embed_dim; in_proj_bias, out_proj,
/// bias_k and bias_v. A query without visible keys gives zeros; PyTorch gives NaN. Raises ValueError unless num_heads
/// divides embed_dim; ShapeError and DTypeError for incompatible operands and masks.
class WEFT_API MultiheadAttention : public Layer<MultiheadAttention> {
 public:
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options = {},
                     Location where = {});
  MultiheadAttentionResult forward(const Tensor& query, const Tensor& key, const Tensor& value, Location where) const {
    return forward(query, key, value, {}, where);
  }
  MultiheadAttentionResult forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const MultiheadAttentionCall& call, Location where) const;

  Parameter in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias, bias_k, bias_v;
  Linear out_proj;

 private:
  int64_t heads_;
  MultiheadAttentionOptions options_;
};
template <>
struct detail::CallOf<MultiheadAttention> {
  using First = const Tensor&;
  using Last = MultiheadAttentionCall;
};

}  // namespace weft::nn
