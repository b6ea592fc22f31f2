// torch::nn::functional: layers as functions of tensors and options.
#pragma once

#include <torch/nn/options/activation.h>
#include <torch/nn/options/common.h>
#include <torch/nn/options/convolution.h>
#include <torch/nn/options/loss.h>

namespace torch::nn::functional {

// ---- activations ----
#define TORCH_ACTIVATION(name, Options) Tensor name(const Tensor& input, const Options& options = {});
TORCH_ACTIVATION(elu, ELUFuncOptions)
TORCH_ACTIVATION(selu, SELUFuncOptions)
TORCH_ACTIVATION(celu, CELUFuncOptions)
TORCH_ACTIVATION(gelu, GELUFuncOptions)
TORCH_ACTIVATION(glu, GLUFuncOptions)
TORCH_ACTIVATION(hardshrink, HardshrinkFuncOptions)
TORCH_ACTIVATION(hardtanh, HardtanhFuncOptions)
TORCH_ACTIVATION(leaky_relu, LeakyReLUFuncOptions)
TORCH_ACTIVATION(relu, ReLUFuncOptions)
TORCH_ACTIVATION(relu6, ReLU6FuncOptions)
TORCH_ACTIVATION(rrelu, RReLUFuncOptions)
TORCH_ACTIVATION(softplus, SoftplusFuncOptions)
TORCH_ACTIVATION(softshrink, SoftshrinkFuncOptions)
TORCH_ACTIVATION(gumbel_softmax, GumbelSoftmaxFuncOptions)
#undef TORCH_ACTIVATION
Tensor softmax(const Tensor& input, const SoftmaxFuncOptions& options);
Tensor softmin(const Tensor& input, const SoftminFuncOptions& options);
Tensor log_softmax(const Tensor& input, const LogSoftmaxFuncOptions& options);
Tensor threshold(const Tensor& input, const ThresholdFuncOptions& options);
Tensor logsigmoid(const Tensor& input);
Tensor prelu(const Tensor& input, const Tensor& weight);
Tensor silu(const Tensor& input);
Tensor mish(const Tensor& input);
Tensor softsign(const Tensor& input);
Tensor tanhshrink(const Tensor& input);
std::tuple<Tensor, Tensor> multi_head_attention_forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                        const MultiheadAttentionForwardFuncOptions& options);
inline Tensor sigmoid(const Tensor& input) { return input.sigmoid(); }
inline Tensor tanh(const Tensor& input) { return input.tanh(); }

// ---- linear layers, norms, dropout, embeddings ----
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});
Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias = {});
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFuncOptions& options = {});
Tensor instance_norm(const Tensor& input, const InstanceNormFuncOptions& options = {});
Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& options);
Tensor local_response_norm(const Tensor& input, const LocalResponseNormFuncOptions& options);
Tensor group_norm(const Tensor& input, const GroupNormFuncOptions& options);
Tensor normalize(const Tensor& input, const NormalizeFuncOptions& options = {});
Tensor dropout(const Tensor& input, const DropoutFuncOptions& options = {});
Tensor dropout2d(const Tensor& input, const Dropout2dFuncOptions& options = {});
Tensor dropout3d(const Tensor& input, const Dropout3dFuncOptions& options = {});
Tensor alpha_dropout(const Tensor& input, const AlphaDropoutFuncOptions& options = {});
Tensor feature_alpha_dropout(const Tensor& input, const FeatureAlphaDropoutFuncOptions& options = {});
Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFuncOptions& options = {});
Tensor embedding_bag(const Tensor& input, const Tensor& weight, const EmbeddingBagFuncOptions& options = {});
Tensor one_hot(const Tensor& tensor, int64_t num_classes = -1);
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, const CosineSimilarityFuncOptions& options = {});
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, const PairwiseDistanceFuncOptions& options = {});
Tensor pdist(const Tensor& input, double p = 2.0);

// ---- convolutions and pools ----
#define TORCH_DIMENSIONS(n)                                                                                         \
  Tensor conv##n##d(const Tensor& input, const Tensor& weight, const Conv##n##dFuncOptions& options = {});          \
  Tensor conv_transpose##n##d(const Tensor& input, const Tensor& weight,                                            \
                              const ConvTranspose##n##dFuncOptions& options = {});                                  \
  Tensor avg_pool##n##d(const Tensor& input, const AvgPool##n##dFuncOptions& options);                              \
  Tensor max_pool##n##d(const Tensor& input, const MaxPool##n##dFuncOptions& options);                              \
  std::tuple<Tensor, Tensor> max_pool##n##d_with_indices(const Tensor& input,                                       \
                                                         const MaxPool##n##dFuncOptions& options);                  \
  Tensor adaptive_max_pool##n##d(const Tensor& input, const AdaptiveMaxPool##n##dFuncOptions& options);             \
  std::tuple<Tensor, Tensor> adaptive_max_pool##n##d_with_indices(const Tensor& input,                              \
                                                                  const AdaptiveMaxPool##n##dFuncOptions& options); \
  Tensor adaptive_avg_pool##n##d(const Tensor& input, const AdaptiveAvgPool##n##dFuncOptions& options);             \
  Tensor max_unpool##n##d(const Tensor& input, const Tensor& indices, const MaxUnpool##n##dFuncOptions& options);   \
  Tensor lp_pool##n##d(const Tensor& input, const LPPool##n##dFuncOptions& options);
TORCH_DIMENSIONS(1)
TORCH_DIMENSIONS(2)
TORCH_DIMENSIONS(3)
#undef TORCH_DIMENSIONS
Tensor fractional_max_pool2d(const Tensor& input, const FractionalMaxPool2dFuncOptions& options);
Tensor fractional_max_pool3d(const Tensor& input, const FractionalMaxPool3dFuncOptions& options);
std::tuple<Tensor, Tensor> fractional_max_pool2d_with_indices(const Tensor& input,
                                                              const FractionalMaxPool2dFuncOptions& options);
std::tuple<Tensor, Tensor> fractional_max_pool3d_with_indices(const Tensor& input,
                                                              const FractionalMaxPool3dFuncOptions& options);
Tensor fold(const Tensor& input, const FoldFuncOptions& options);
Tensor unfold(const Tensor& input, const UnfoldFuncOptions& options);
Tensor pad(const Tensor& input, const PadFuncOptions& options);
Tensor pixel_shuffle(const Tensor& input, const PixelShuffleFuncOptions& options);
Tensor pixel_unshuffle(const Tensor& input, const PixelUnshuffleFuncOptions& options);
Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& options = {});
Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleFuncOptions& options = {});
Tensor affine_grid(const Tensor& theta, const IntArrayRef& size, bool align_corners = false);

// ---- losses ----
#define TORCH_LOSS(name, Options) Tensor name(const Tensor& input, const Tensor& target, const Options& options = {});
TORCH_LOSS(l1_loss, L1LossFuncOptions)
TORCH_LOSS(mse_loss, MSELossFuncOptions)
TORCH_LOSS(kl_div, KLDivFuncOptions)
TORCH_LOSS(binary_cross_entropy, BinaryCrossEntropyFuncOptions)
TORCH_LOSS(binary_cross_entropy_with_logits, BinaryCrossEntropyWithLogitsFuncOptions)
TORCH_LOSS(hinge_embedding_loss, HingeEmbeddingLossFuncOptions)
TORCH_LOSS(multi_margin_loss, MultiMarginLossFuncOptions)
TORCH_LOSS(multilabel_margin_loss, MultilabelMarginLossFuncOptions)
TORCH_LOSS(multilabel_soft_margin_loss, MultilabelSoftMarginLossFuncOptions)
TORCH_LOSS(soft_margin_loss, SoftMarginLossFuncOptions)
TORCH_LOSS(smooth_l1_loss, SmoothL1LossFuncOptions)
TORCH_LOSS(huber_loss, HuberLossFuncOptions)
TORCH_LOSS(poisson_nll_loss, PoissonNLLLossFuncOptions)
TORCH_LOSS(nll_loss, NLLLossFuncOptions)
TORCH_LOSS(cross_entropy, CrossEntropyFuncOptions)
#undef TORCH_LOSS
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossFuncOptions& options, double beta);
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             const CosineEmbeddingLossFuncOptions& options = {});
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           const MarginRankingLossFuncOptions& options = {});
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossFuncOptions& options = {});
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const TripletMarginWithDistanceLossFuncOptions& options = {});
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossFuncOptions& options = {});

}  // namespace torch::nn::functional
