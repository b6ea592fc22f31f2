// Activations and multi-head attention.
#pragma once

#include <torch/nn/functional.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/any.h>
#include <torch/nn/modules/linear.h>

namespace torch::nn {

TORCH_PLAIN_CLASS(ELU, ELUOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(SELU, SELUOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(CELU, CELUOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(GLU, GLUOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(GELU, GELUOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Hardshrink, HardshrinkOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Hardtanh, HardtanhOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(LeakyReLU, LeakyReLUOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(ReLU, ReLUOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(ReLU6, ReLU6Options, Tensor, Tensor input)
TORCH_PLAIN_CLASS(RReLU, RReLUOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(Softplus, SoftplusOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Softshrink, SoftshrinkOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Threshold, ThresholdOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(Softmax, SoftmaxOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Softmin, SoftminOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(LogSoftmax, LogSoftmaxOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Softmax2d, detail::NoOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(LogSigmoid, detail::NoOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Sigmoid, detail::NoOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(SiLU, detail::NoOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Mish, detail::NoOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Softsign, detail::NoOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Tanh, detail::NoOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Tanhshrink, detail::NoOptions, Tensor, const Tensor& input)

class PReLUImpl : public Cloneable<PReLUImpl> {
 public:
  explicit PReLUImpl(const PReLUOptions& options_ = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  PReLUOptions options;
  Tensor weight;
};
TORCH_MODULE(PReLU);

class MultiheadAttentionImpl : public Cloneable<MultiheadAttentionImpl> {
 public:
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads)
      : MultiheadAttentionImpl(MultiheadAttentionOptions(embed_dim, num_heads)) {}
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& options_);
  void reset() override;
  void _reset_parameters();
  /// Inputs are [length, batch, width]. Returns the result and, with need_weights, the attention weights.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& key_padding_mask = {}, bool need_weights = true,
                                     const Tensor& attn_mask = {}, bool average_attn_weights = true);

 protected:
  FORWARD_HAS_DEFAULT_ARGS({3, AnyValue(Tensor())}, {4, AnyValue(true)}, {5, AnyValue(Tensor())}, {6, AnyValue(true)})

 public:
  MultiheadAttentionOptions options;
  bool _qkv_same_embed_dim = true;
  Tensor in_proj_weight, in_proj_bias;
  Linear out_proj = nullptr;
  Tensor bias_k, bias_v;
  int64_t head_dim = 0;
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;
};
TORCH_MODULE(MultiheadAttention);

}  // namespace torch::nn
