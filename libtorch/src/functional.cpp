// torch::nn::functional without convolutions, pools and losses.
#include <torch/nn/functional.h>

#include <weft/ops/attention.hpp>
#include <weft/ops/batch_norm.hpp>
#include <weft/ops/bilinear.hpp>
#include <weft/ops/channels.hpp>
#include <weft/ops/distance.hpp>
#include <weft/ops/dropout.hpp>
#include <weft/ops/embedding_bag.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/norm.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/search.hpp>

namespace torch::nn::functional {

namespace {

/// The result, or the input after it took over the result's elements.
Tensor finished(const Tensor& input, const Tensor& result, bool inplace) {
  return inplace ? input.copy_(result) : result;
}

}  // namespace

// ---- activations ----
#define ACTIVATION(name, Options, ...) \
  Tensor name(const Tensor& input, const Options& options) { return finished(input, __VA_ARGS__, options.inplace()); }
ACTIVATION(elu, ELUFuncOptions, weft::elu(input, options.alpha()))
ACTIVATION(selu, SELUFuncOptions, weft::selu(input))
ACTIVATION(celu, CELUFuncOptions, weft::celu(input, options.alpha()))
ACTIVATION(hardtanh, HardtanhFuncOptions, weft::hardtanh(input, options.min_val(), options.max_val()))
ACTIVATION(leaky_relu, LeakyReLUFuncOptions, weft::leaky_relu(input, options.negative_slope()))
ACTIVATION(relu, ReLUFuncOptions, weft::relu(input))
ACTIVATION(relu6, ReLU6FuncOptions, weft::relu6(input))
ACTIVATION(rrelu, RReLUFuncOptions, weft::rrelu(input, options.lower(), options.upper(), options.training()))
ACTIVATION(threshold, ThresholdFuncOptions, weft::threshold(input, options.threshold(), options.value()))
#undef ACTIVATION
Tensor gelu(const Tensor& input, const GELUFuncOptions& options) { return input.gelu(options.approximate()); }
Tensor glu(const Tensor& input, const GLUFuncOptions& options) { return weft::glu(input, options.dim()); }
Tensor hardshrink(const Tensor& input, const HardshrinkFuncOptions& options) {
  return weft::hardshrink(input, options.lambda());
}
Tensor softshrink(const Tensor& input, const SoftshrinkFuncOptions& options) {
  return weft::softshrink(input, options.lambda());
}
Tensor softplus(const Tensor& input, const SoftplusFuncOptions& options) {
  return weft::softplus(input, options.beta(), options.threshold());
}
Tensor softmax(const Tensor& input, const SoftmaxFuncOptions& options) {
  return input.softmax(options.dim(), options.dtype());
}
Tensor softmin(const Tensor& input, const SoftminFuncOptions& options) {
  return (-input).softmax(options.dim(), options.dtype());
}
Tensor log_softmax(const Tensor& input, const LogSoftmaxFuncOptions& options) {
  return input.log_softmax(options.dim(), options.dtype());
}
Tensor logsigmoid(const Tensor& input) { return input.logsigmoid(); }
Tensor prelu(const Tensor& input, const Tensor& weight) { return input.prelu(weight); }
Tensor silu(const Tensor& input) { return input.silu(); }
Tensor mish(const Tensor& input) { return input.mish(); }
Tensor softsign(const Tensor& input) { return input.softsign(); }
Tensor tanhshrink(const Tensor& input) { return input.tanhshrink(); }

Tensor gumbel_softmax(const Tensor& input, const GumbelSoftmaxFuncOptions& options) {
  const Tensor gumbels = -at::empty_like(input).exponential_().log();
  const Tensor soft = ((input + gumbels) / options.tau()).softmax(options.dim());
  if (!options.hard()) return soft;
  const Tensor index = std::get<1>(soft.max(options.dim(), /*keepdim=*/true));
  return at::zeros_like(input).scatter_(options.dim(), index, 1.0) - soft.detach() + soft;
}

std::tuple<Tensor, Tensor> multi_head_attention_forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                        const MultiheadAttentionForwardFuncOptions& options) {
  TORCH_CHECK(query.size(-1) == options.embed_dim_to_check(), "expected queries of width ",
              options.embed_dim_to_check(), ", got ", query.size(-1));
  TORCH_CHECK(options.embed_dim_to_check() % options.num_heads() == 0, "embed_dim must be divisible by num_heads");
  TORCH_CHECK(!options.static_k().defined() && !options.static_v().defined(),
              "static_k and static_v are not supported: pass keys and values to the call");
  weft::HeadsParameters parameters;
  if (options.use_separate_proj_weight()) {
    parameters.q_proj_weight = options.q_proj_weight();
    parameters.k_proj_weight = options.k_proj_weight();
    parameters.v_proj_weight = options.v_proj_weight();
  } else {
    parameters.in_proj_weight = options.in_proj_weight();
  }
  parameters.in_proj_bias = options.in_proj_bias();
  parameters.bias_k = options.bias_k();
  parameters.bias_v = options.bias_v();
  parameters.out_proj_weight = options.out_proj_weight();
  parameters.out_proj_bias = options.out_proj_bias();
  parameters.add_zero_attn = options.add_zero_attn();
  const auto mask = [](const Tensor& m) { return m.defined() && m.scalar_type() == at::kByte ? m.ne(0) : m; };
  const weft::HeadsResult result =
      weft::multi_head_attention_forward(query, key, value, options.num_heads(), parameters,
                                         {.key_padding_mask = mask(options.key_padding_mask()),
                                          .need_weights = options.need_weights(),
                                          .attn_mask = mask(options.attn_mask()),
                                          .average_attn_weights = options.average_attn_weights()},
                                         options.training() ? options.dropout_p() : 0);
  return {result.output, result.weights};
}

// ---- linear layers and norms ----
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return weft::linear(input, weight, bias);
}
Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias) {
  return weft::bilinear(input1, input2, weight, bias);
}
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFuncOptions& options) {
  return weft::batch_norm(
      input, running_mean, running_var, options.weight(), options.bias(),
      {.training = options.training(), .momentum = options.momentum().value_or(0), .eps = options.eps()});
}
Tensor instance_norm(const Tensor& input, const InstanceNormFuncOptions& options) {
  return weft::instance_norm(
      input, options.running_mean(), options.running_var(), options.weight(), options.bias(),
      {.use_input_stats = options.use_input_stats(), .momentum = options.momentum(), .eps = options.eps()});
}
Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& options) {
  return weft::layer_norm(input, options.normalized_shape(), options.weight(), options.bias(), options.eps());
}
Tensor group_norm(const Tensor& input, const GroupNormFuncOptions& options) {
  return weft::group_norm(input, options.num_groups(), options.weight(), options.bias(), options.eps());
}
Tensor local_response_norm(const Tensor& input, const LocalResponseNormFuncOptions& options) {
  return weft::local_response_norm(input, options.size(), options.alpha(), options.beta(), options.k());
}
Tensor normalize(const Tensor& input, const NormalizeFuncOptions& options) {
  const Tensor result = weft::normalize(input, {.p = options.p(), .dims = options.dim(), .eps = options.eps()});
  if (!options.out()) return result;
  Tensor out = *options.out();
  return at::write_out(out, result);
}

// ---- dropout ----
#define DROPOUT(name, Options)                                                                                   \
  Tensor name(const Tensor& input, const Options& options) {                                                     \
    TORCH_CHECK(options.p() >= 0 && options.p() <= 1, "dropout probability has to be between 0 and 1, but got ", \
                options.p());                                                                                    \
    return finished(input, weft::name(input, options.p(), options.training()), options.inplace());               \
  }
DROPOUT(dropout, DropoutFuncOptions)
DROPOUT(dropout2d, Dropout2dFuncOptions)
DROPOUT(dropout3d, Dropout3dFuncOptions)
DROPOUT(alpha_dropout, AlphaDropoutFuncOptions)
DROPOUT(feature_alpha_dropout, FeatureAlphaDropoutFuncOptions)
#undef DROPOUT

// ---- embeddings ----
namespace {

/// Scales the used rows of `weight` down to `max_norm`, as libtorch does before each look-up.
void limit_rows(const Tensor& weight, const Tensor& indices, double max_norm, double norm_type) {
  const NoGradGuard unrecorded;
  const Tensor rows = std::get<0>(at::_unique(indices.reshape(-1)));
  const Tensor used = weight.detach().index_select(0, rows);
  const Tensor norms = used.norm(norm_type, 1, /*keepdim=*/true);
  const Tensor factor = at::where(norms > max_norm, max_norm / (norms + 1e-7), at::ones_like(norms));
  weight.detach().index_copy_(0, rows, used * factor);
}

/// Divides the gradient of each row by the number of its occurrences.
void scale_by_frequency(const Tensor& result, const Tensor& indices, int64_t rows) {
  if (!result.requires_grad()) return;
  const Tensor counts = indices.reshape(-1).bincount({}, rows).to(result.scalar_type());
  const Tensor divisor = counts.index_select(0, indices.reshape(-1)).reshape(indices.sizes()).unsqueeze(-1);
  result.register_hook([divisor](const Tensor& gradient) { return gradient / divisor; });
}

/// A padding index that may count from the end.
optional<int64_t> checked_padding(optional<int64_t> padding_idx, int64_t rows) {
  if (!padding_idx) return nullopt;
  TORCH_CHECK(*padding_idx < rows && *padding_idx >= -rows, "Padding_idx must be within num_embeddings");
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

}  // namespace

Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFuncOptions& options) {
  if (options.max_norm()) limit_rows(weight, input, *options.max_norm(), options.norm_type());
  const Tensor result =
      weft::embedding(weight, input,
                      weft::EmbeddingOptions{.padding_idx = checked_padding(options.padding_idx(), weight.size(0)),
                                             .sparse = options.sparse()});
  if (options.scale_grad_by_freq()) scale_by_frequency(result, input, weight.size(0));
  return result;
}
Tensor embedding_bag(const Tensor& input, const Tensor& weight, const EmbeddingBagFuncOptions& options) {
  TORCH_CHECK(!options.scale_grad_by_freq() || !std::holds_alternative<enumtype::kMax>(options.mode()),
              "max mode does not support scaling the gradient by the frequency");
  if (options.max_norm()) limit_rows(weight, input, *options.max_norm(), options.norm_type());
  const weft::BagMode mode = std::holds_alternative<enumtype::kSum>(options.mode())    ? weft::BagMode::sum
                             : std::holds_alternative<enumtype::kMean>(options.mode()) ? weft::BagMode::mean
                                                                                       : weft::BagMode::max;
  return weft::embedding_bag(input, weight,
                             {.offsets = options.offsets(),
                              .mode = mode,
                              .per_sample_weights = options.per_sample_weights(),
                              .include_last_offset = options.include_last_offset(),
                              .padding_idx = checked_padding(options.padding_idx(), weight.size(0)),
                              .sparse = options.sparse()});
}
Tensor one_hot(const Tensor& tensor, int64_t num_classes) { return weft::one_hot(tensor, num_classes); }

// ---- distances ----
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, const CosineSimilarityFuncOptions& options) {
  return at::cosine_similarity(x1, x2, options.dim(), options.eps());
}
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, const PairwiseDistanceFuncOptions& options) {
  return at::pairwise_distance(x1, x2, options.p(), options.eps(), options.keepdim());
}
Tensor pdist(const Tensor& input, double p) { return at::pdist(input, p); }

}  // namespace torch::nn::functional
