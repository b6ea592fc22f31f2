#include <torch/nn/functional.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>

#include "print_options.h"

namespace torch::nn {

namespace F = functional;
using detail::put_inplace;

#define ACTIVATION(Name, function, ...)                                            \
  Tensor Name##Impl::forward(Tensor input) { return F::function(input, options); } \
  void Name##Impl::pretty_print(std::ostream& stream) const {                      \
    stream << "torch::nn::" #Name "(" __VA_ARGS__;                                 \
    stream << ")";                                                                 \
  }
#define PRINT_INPLACE(before) \
  ;                           \
  put_inplace(stream, options.inplace(), before)
ACTIVATION(ELU, elu, "alpha=" << options.alpha() PRINT_INPLACE(", "))
ACTIVATION(SELU, selu, "" PRINT_INPLACE(""))
ACTIVATION(CELU, celu, "alpha=" << options.alpha() PRINT_INPLACE(", "))
ACTIVATION(Hardtanh, hardtanh, "min_val=" << options.min_val() << ", max_val=" << options.max_val() PRINT_INPLACE(", "))
ACTIVATION(LeakyReLU, leaky_relu, "negative_slope=" << options.negative_slope() PRINT_INPLACE(", "))
ACTIVATION(ReLU, relu, "" PRINT_INPLACE(""))
ACTIVATION(ReLU6, relu6, "" PRINT_INPLACE(""))
ACTIVATION(Threshold, threshold,
           "threshold=" << options.threshold() << ", value=" << options.value() PRINT_INPLACE(", "))
#undef ACTIVATION

Tensor RReLUImpl::forward(Tensor input) {
  return F::rrelu(input, F::RReLUFuncOptions()
                             .lower(options.lower())
                             .upper(options.upper())
                             .training(is_training())
                             .inplace(options.inplace()));
}
void RReLUImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::RReLU(lower=" << options.lower() << ", upper=" << options.upper();
  put_inplace(stream, options.inplace());
  stream << ")";
}

#define FUNCTION(Name, call, ...)                                  \
  Tensor Name##Impl::forward(const Tensor& input) { return call; } \
  void Name##Impl::pretty_print(std::ostream& stream) const { stream << "torch::nn::" #Name "(" __VA_ARGS__ << ")"; }
FUNCTION(GLU, F::glu(input, options), "dim=" << options.dim())
FUNCTION(GELU, F::gelu(input, options), "")
FUNCTION(Hardshrink, F::hardshrink(input, options), << options.lambda())
FUNCTION(Softshrink, F::softshrink(input, options), << options.lambda())
FUNCTION(Softplus, F::softplus(input, options), "beta=" << options.beta() << ", threshold=" << options.threshold())
FUNCTION(Softmax, F::softmax(input, F::SoftmaxFuncOptions(options.dim())), "dim=" << options.dim())
FUNCTION(Softmin, F::softmin(input, F::SoftminFuncOptions(options.dim())), "dim=" << options.dim())
FUNCTION(LogSoftmax, F::log_softmax(input, F::LogSoftmaxFuncOptions(options.dim())), "dim=" << options.dim())
FUNCTION(LogSigmoid, F::logsigmoid(input), "")
FUNCTION(Sigmoid, input.sigmoid(), "")
FUNCTION(SiLU, F::silu(input), "")
FUNCTION(Mish, F::mish(input), "")
FUNCTION(Softsign, F::softsign(input), "")
FUNCTION(Tanh, input.tanh(), "")
FUNCTION(Tanhshrink, F::tanhshrink(input), "")
#undef FUNCTION

Tensor Softmax2dImpl::forward(const Tensor& input) {
  TORCH_CHECK(input.dim() == 4 || input.dim() == 3, "Softmax2d requires a 3D or 4D tensor as input");
  return F::softmax(input, F::SoftmaxFuncOptions(-3));
}
void Softmax2dImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::Softmax2d()"; }

PReLUImpl::PReLUImpl(const PReLUOptions& options_) : options(options_) { reset(); }
void PReLUImpl::reset() {
  weight = register_parameter("weight", at::full({options.num_parameters()}, options.init(), kFloat));
}
Tensor PReLUImpl::forward(const Tensor& input) { return F::prelu(input, weight); }
void PReLUImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::PReLU(num_parameters=" << options.num_parameters() << ")";
}

// ---- attention ----
MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& options_)
    : Cloneable("torch::nn::MultiheadAttention"), options(options_) {
  reset();
}

void MultiheadAttentionImpl::reset() {
  const int64_t width = options.embed_dim();
  _qkv_same_embed_dim = options.kdim() == width && options.vdim() == width;
  head_dim = width / options.num_heads();
  TORCH_CHECK(head_dim * options.num_heads() == width, "embed_dim must be divisible by num_heads");
  if (_qkv_same_embed_dim) {
    in_proj_weight = register_parameter("in_proj_weight", at::empty({3 * width, width}));
    for (Tensor* weight : {&q_proj_weight, &k_proj_weight, &v_proj_weight}) *weight = {};
    register_parameter("q_proj_weight", {}, false);
    register_parameter("k_proj_weight", {}, false);
    register_parameter("v_proj_weight", {}, false);
  } else {
    q_proj_weight = register_parameter("q_proj_weight", at::empty({width, width}));
    k_proj_weight = register_parameter("k_proj_weight", at::empty({width, options.kdim()}));
    v_proj_weight = register_parameter("v_proj_weight", at::empty({width, options.vdim()}));
    in_proj_weight = {};
    register_parameter("in_proj_weight", {}, false);
  }
  in_proj_bias = register_parameter("in_proj_bias", options.bias() ? at::empty({3 * width}) : Tensor(), options.bias());
  out_proj = register_module("out_proj", Linear(LinearOptions(width, width).bias(options.bias())));
  bias_k = options.add_bias_kv() ? register_parameter("bias_k", at::empty({1, 1, width})) : Tensor();
  bias_v = options.add_bias_kv() ? register_parameter("bias_v", at::empty({1, 1, width})) : Tensor();
  _reset_parameters();
}

void MultiheadAttentionImpl::_reset_parameters() {
  if (_qkv_same_embed_dim) {
    init::xavier_uniform_(in_proj_weight);
  } else {
    init::xavier_uniform_(q_proj_weight);
    init::xavier_uniform_(k_proj_weight);
    init::xavier_uniform_(v_proj_weight);
  }
  if (in_proj_bias.defined()) {
    init::constant_(in_proj_bias, 0);
    init::constant_(out_proj->bias, 0);
  }
  if (bias_k.defined()) init::xavier_normal_(bias_k);
  if (bias_v.defined()) init::xavier_normal_(bias_v);
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                           const Tensor& key_padding_mask, bool need_weights,
                                                           const Tensor& attn_mask, bool average_attn_weights) {
  F::MultiheadAttentionForwardFuncOptions call(options.embed_dim(), options.num_heads(), in_proj_weight, in_proj_bias,
                                               bias_k, bias_v, options.add_zero_attn(), options.dropout(),
                                               out_proj->weight, out_proj->bias);
  call.training(is_training())
      .key_padding_mask(key_padding_mask)
      .need_weights(need_weights)
      .attn_mask(attn_mask)
      .average_attn_weights(average_attn_weights);
  if (!_qkv_same_embed_dim) {
    call.use_separate_proj_weight(true)
        .q_proj_weight(q_proj_weight)
        .k_proj_weight(k_proj_weight)
        .v_proj_weight(v_proj_weight);
  }
  return F::multi_head_attention_forward(query, key, value, call);
}

}  // namespace torch::nn
