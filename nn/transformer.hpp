// Self-attention and the transformer block.
#pragma once

#include "layers.hpp"

namespace weft::nn {

struct AttentionOptions {
  /// Each position sees itself and those before it.
  bool causal = true;
  /// Of the attention weights and of what leaves the layer.
  double dropout = 0;
  bool bias = true;
};

/// Self-attention of `heads` heads: x [batch, length, width] -> the same shape. `qkv` [3 · width, width] makes queries,
/// keys and values, each split over the heads; `proj` [width, width] mixes what the heads return (Vaswani et al. 2017).
/// ValueError unless `heads` divides `width`; ShapeError for x of another rank or width.
class WEFT_API MultiHeadAttention : public Layer<MultiHeadAttention> {
 public:
  MultiHeadAttention(int64_t width, int64_t heads, AttentionOptions options = {}, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;

  Linear qkv, proj;
  Dropout dropout;

 private:
  int64_t heads_;
  AttentionOptions options_;
};

struct TransformerOptions {
  /// Width of the hidden layer; 0 stands for four times the block's.
  int64_t hidden = 0;
  bool causal = true;
  double dropout = 0;
  bool bias = true;
};

/// x + attention(norm1(x)), then x + down(gelu(up(norm2(x)))): the pre-norm block of GPT-2.
/// x [batch, length, width] -> the same shape. Errors as MultiHeadAttention.
class WEFT_API TransformerBlock : public Layer<TransformerBlock> {
 public:
  TransformerBlock(int64_t width, int64_t heads, TransformerOptions options = {}, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;

  LayerNorm norm1;
  MultiHeadAttention attention;
  LayerNorm norm2;
  Linear up, down;
  Dropout dropout;
};

}  // namespace weft::nn
