// Transformer encoders and decoders.
#pragma once

#include <functional>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/any.h>
#include <torch/nn/modules/container.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

namespace torch::nn {

using activation_t = std::variant<enumtype::kReLU, enumtype::kGELU, std::function<Tensor(const Tensor&)>>;

#define TORCH_LAYER_OPTIONS(Name)                                                       \
  struct Name##Options {                                                                \
    Name##Options(int64_t d_model, int64_t nhead) : d_model_(d_model), nhead_(nhead) {} \
    TORCH_ARG(int64_t, d_model);                                                        \
    TORCH_ARG(int64_t, nhead);                                                          \
    TORCH_ARG(int64_t, dim_feedforward) = 2048;                                         \
    TORCH_ARG(double, dropout) = 0.1;                                                   \
    TORCH_ARG(activation_t, activation) = torch::kReLU;                                 \
  };
TORCH_LAYER_OPTIONS(TransformerEncoderLayer)
TORCH_LAYER_OPTIONS(TransformerDecoderLayer)
#undef TORCH_LAYER_OPTIONS

class TransformerEncoderLayerImpl : public Cloneable<TransformerEncoderLayerImpl> {
 public:
  TransformerEncoderLayerImpl(int64_t d_model, int64_t nhead)
      : TransformerEncoderLayerImpl(TransformerEncoderLayerOptions(d_model, nhead)) {}
  explicit TransformerEncoderLayerImpl(TransformerEncoderLayerOptions options_);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& src_mask = {}, const Tensor& src_key_padding_mask = {});

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())}, {2, AnyValue(Tensor())})

 public:
  TransformerEncoderLayerOptions options;
  MultiheadAttention self_attn = nullptr;
  Linear linear1 = nullptr;
  Dropout dropout = nullptr;
  Linear linear2 = nullptr;
  LayerNorm norm1 = nullptr, norm2 = nullptr;
  Dropout dropout1 = nullptr, dropout2 = nullptr;
};
TORCH_MODULE(TransformerEncoderLayer);

class TransformerDecoderLayerImpl : public Cloneable<TransformerDecoderLayerImpl> {
 public:
  TransformerDecoderLayerImpl(int64_t d_model, int64_t nhead)
      : TransformerDecoderLayerImpl(TransformerDecoderLayerOptions(d_model, nhead)) {}
  explicit TransformerDecoderLayerImpl(TransformerDecoderLayerOptions options_);
  void reset() override;
  void reset_parameters();
  Tensor forward(Tensor tgt, const Tensor& memory, const Tensor& tgt_mask = {}, const Tensor& memory_mask = {},
                 const Tensor& tgt_key_padding_mask = {}, const Tensor& memory_key_padding_mask = {});

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(Tensor())}, {3, AnyValue(Tensor())}, {4, AnyValue(Tensor())},
                           {5, AnyValue(Tensor())})

 public:
  TransformerDecoderLayerOptions options;
  MultiheadAttention self_attn{nullptr};
  Dropout dropout1{nullptr};
  LayerNorm norm1{nullptr};
  MultiheadAttention multihead_attn{nullptr};
  Dropout dropout2{nullptr};
  LayerNorm norm2{nullptr};
  Linear linear1{nullptr};
  Dropout dropout{nullptr};
  Linear linear2{nullptr};
  Dropout dropout3{nullptr};
  LayerNorm norm3{nullptr};
};
TORCH_MODULE(TransformerDecoderLayer);

#define TORCH_CODER_OPTIONS(Name, layer)                                                                          \
  struct Name##Options {                                                                                          \
    Name##Options(Name##Layer layer, int64_t num_layers) : layer##_(std::move(layer)), num_layers_(num_layers) {} \
    Name##Options(const Name##LayerOptions& layer_options, int64_t num_layers)                                    \
        : Name##Options(Name##Layer(layer_options), num_layers) {}                                                \
    TORCH_ARG(Name##Layer, layer) = nullptr;                                                                      \
    TORCH_ARG(int64_t, num_layers);                                                                               \
    TORCH_ARG(AnyModule, norm);                                                                                   \
  };
TORCH_CODER_OPTIONS(TransformerEncoder, encoder_layer)
TORCH_CODER_OPTIONS(TransformerDecoder, decoder_layer)
#undef TORCH_CODER_OPTIONS

class TransformerEncoderImpl : public Cloneable<TransformerEncoderImpl> {
 public:
  TransformerEncoderImpl(TransformerEncoderLayer encoder_layer, int64_t num_layers)
      : TransformerEncoderImpl(TransformerEncoderOptions(std::move(encoder_layer), num_layers)) {}
  explicit TransformerEncoderImpl(TransformerEncoderOptions options_);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& src_mask = {}, const Tensor& src_key_padding_mask = {});

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())}, {2, AnyValue(Tensor())})

 public:
  TransformerEncoderOptions options;
  ModuleList layers = nullptr;
  AnyModule norm;
};
TORCH_MODULE(TransformerEncoder);

class TransformerDecoderImpl : public Cloneable<TransformerDecoderImpl> {
 public:
  TransformerDecoderImpl(TransformerDecoderLayer decoder_layer, int64_t num_layers)
      : TransformerDecoderImpl(TransformerDecoderOptions(std::move(decoder_layer), num_layers)) {}
  explicit TransformerDecoderImpl(TransformerDecoderOptions options_);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& tgt, const Tensor& memory, const Tensor& tgt_mask = {}, const Tensor& memory_mask = {},
                 const Tensor& tgt_key_padding_mask = {}, const Tensor& memory_key_padding_mask = {});

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(Tensor())}, {3, AnyValue(Tensor())}, {4, AnyValue(Tensor())},
                           {5, AnyValue(Tensor())})

 public:
  TransformerDecoderOptions options;
  ModuleList layers{nullptr};
  AnyModule norm;
};
TORCH_MODULE(TransformerDecoder);

struct TransformerOptions {
  TransformerOptions() = default;
  TransformerOptions(int64_t d_model, int64_t nhead) : d_model_(d_model), nhead_(nhead) {}
  TransformerOptions(int64_t d_model, int64_t nhead, int64_t num_encoder_layers, int64_t num_decoder_layers)
      : d_model_(d_model),
        nhead_(nhead),
        num_encoder_layers_(num_encoder_layers),
        num_decoder_layers_(num_decoder_layers) {}
  TORCH_ARG(int64_t, d_model) = 512;
  TORCH_ARG(int64_t, nhead) = 8;
  TORCH_ARG(int64_t, num_encoder_layers) = 6;
  TORCH_ARG(int64_t, num_decoder_layers) = 6;
  TORCH_ARG(int64_t, dim_feedforward) = 2048;
  TORCH_ARG(double, dropout) = 0.1;
  TORCH_ARG(activation_t, activation) = torch::kReLU;
  TORCH_ARG(AnyModule, custom_encoder);
  TORCH_ARG(AnyModule, custom_decoder);
};

class TransformerImpl : public Cloneable<TransformerImpl> {
 public:
  explicit TransformerImpl(TransformerOptions options_);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& tgt, const Tensor& src_mask = {}, const Tensor& tgt_mask = {},
                 const Tensor& memory_mask = {}, const Tensor& src_key_padding_mask = {},
                 const Tensor& tgt_key_padding_mask = {}, const Tensor& memory_key_padding_mask = {});
  /// -inf above the diagonal, 0 elsewhere.
  static Tensor generate_square_subsequent_mask(int64_t size);

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(Tensor())}, {3, AnyValue(Tensor())}, {4, AnyValue(Tensor())},
                           {5, AnyValue(Tensor())}, {6, AnyValue(Tensor())}, {7, AnyValue(Tensor())})

 public:
  TransformerOptions options;
  AnyModule encoder, decoder;
};
TORCH_MODULE(Transformer);

}  // namespace torch::nn
