// Transformers: GPT-2's block, and PyTorch's encoder and decoder.
#pragma once

#include "attention.hpp"

namespace weft::nn {

struct TransformerOptions {
  /// Width of the hidden layer; 0 means 4 · width.
  int64_t hidden = 0;
  bool causal = true;
  double dropout = 0;
  bool bias = true;
};

/// x + attention(norm1(x)), then x + down(gelu(up(norm2(x)))): the pre-norm block of GPT-2. x [batch, length, width] ->
/// the same shape. Errors as SelfAttention.
class WEFT_API TransformerBlock : public Layer<TransformerBlock> {
 public:
  TransformerBlock(int64_t width, int64_t heads, TransformerOptions options = {}, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;

  LayerNorm norm1;
  SelfAttention attention;
  LayerNorm norm2;
  Linear up, down;
  Dropout dropout;
};

enum class TransformerActivation : uint8_t { relu, gelu };

struct TransformerLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  /// Apply norms before the attention and feed-forward layers instead of after the residual sums.
  bool norm_first = false;
  bool bias = true;
};
/// Masks as in MultiheadAttentionCall.
struct EncoderCall {
  Tensor mask = {}, key_padding_mask = {};
  bool is_causal = false;
};
struct DecoderCall {
  Tensor tgt_mask = {}, memory_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;
};

/// Self-attention and two linear layers, each with a residual connection and a norm (Vaswani et al. 2017), with
/// PyTorch's names and options. x and the result are [length, batch, d_model], [batch, length, d_model] or without the
/// batch.
class WEFT_API TransformerEncoderLayer : public Layer<TransformerEncoderLayer> {
 public:
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerLayerOptions& options = {},
                          Location where = {});
  Tensor forward(const Tensor& x, Location where) const { return forward(x, {}, where); }
  Tensor forward(const Tensor& x, const EncoderCall& call, Location where) const;

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout, dropout1, dropout2;

 private:
  TransformerLayerOptions options_;
};

/// As TransformerEncoderLayer, with attention to `memory`, the encoder's result, in between.
class WEFT_API TransformerDecoderLayer : public Layer<TransformerDecoderLayer> {
 public:
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerLayerOptions& options = {},
                          Location where = {});
  Tensor forward(const Tensor& x, const Tensor& memory, Location where) const { return forward(x, memory, {}, where); }
  Tensor forward(const Tensor& x, const Tensor& memory, const DecoderCall& call, Location where) const;

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout, dropout1, dropout2, dropout3;

 private:
  TransformerLayerOptions options_;
};

/// `num_layers` clones of a layer in sequence; `norm` adds a final LayerNorm.
class WEFT_API TransformerEncoder : public Layer<TransformerEncoder> {
 public:
  TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers, bool norm = false, Location where = {});
  Tensor forward(const Tensor& x, Location where) const { return forward(x, {}, where); }
  Tensor forward(const Tensor& x, const EncoderCall& call, Location where) const;

  ModuleList<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};
class WEFT_API TransformerDecoder : public Layer<TransformerDecoder> {
 public:
  TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers, bool norm = false, Location where = {});
  Tensor forward(const Tensor& x, const Tensor& memory, Location where) const { return forward(x, memory, {}, where); }
  Tensor forward(const Tensor& x, const Tensor& memory, const DecoderCall& call, Location where) const;

  ModuleList<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
};

struct TransformerModelOptions {
  int64_t num_encoder_layers = 6, num_decoder_layers = 6;
  TransformerLayerOptions layers = {};
};
/// An encoder of src and a decoder of tgt, each with a final norm; matrices are initialised by init::xavier_uniform_.
class WEFT_API Transformer : public Layer<Transformer> {
 public:
  explicit Transformer(int64_t d_model = 512, int64_t nhead = 8, const TransformerModelOptions& options = {},
                       Location where = {});
  Tensor forward(const Tensor& src, const Tensor& tgt, Location where) const {
    return forward(src, tgt, {}, {}, where);
  }
  Tensor forward(const Tensor& src, const Tensor& tgt, const EncoderCall& encoding, const DecoderCall& decoding,
                 Location where) const;
  /// Causal mask [size, size]: -infinity above the diagonal, 0 elsewhere.
  static Tensor generate_square_subsequent_mask(int64_t size, TensorOptions options = {}, Location where = {});

  TransformerEncoder encoder;
  TransformerDecoder decoder;
};

template <>
struct detail::CallOf<TransformerEncoderLayer> {
  using First = const Tensor&;
  using Last = EncoderCall;
};
template <>
struct detail::CallOf<TransformerEncoder> : detail::CallOf<TransformerEncoderLayer> {};
template <>
struct detail::CallOf<TransformerDecoderLayer> {
  using First = const Tensor&;
  using Last = DecoderCall;
};
template <>
struct detail::CallOf<TransformerDecoder> : detail::CallOf<TransformerDecoderLayer> {};

}  // namespace weft::nn
