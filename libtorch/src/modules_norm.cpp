#include <torch/nn/functional.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/modules/normalization.h>

#include "print_options.h"

namespace torch::nn {

namespace F = functional;
using detail::text;

// ---- dropout ----
#define DROPOUT(Name, function, Options, Input)                                                                \
  Tensor Name##Impl::forward(Input input) {                                                                    \
    return F::function(input, F::Options().p(options.p()).training(is_training()).inplace(options.inplace())); \
  }                                                                                                            \
  void Name##Impl::pretty_print(std::ostream& stream) const {                                                  \
    stream << "torch::nn::" #Name "(p=" << options.p() << ", inplace=" << text(options.inplace()) << ")";      \
  }
DROPOUT(Dropout, dropout, DropoutFuncOptions, Tensor)
DROPOUT(Dropout2d, dropout2d, Dropout2dFuncOptions, Tensor)
DROPOUT(Dropout3d, dropout3d, Dropout3dFuncOptions, Tensor)
DROPOUT(AlphaDropout, alpha_dropout, AlphaDropoutFuncOptions, const Tensor&)
DROPOUT(FeatureAlphaDropout, feature_alpha_dropout, FeatureAlphaDropoutFuncOptions, const Tensor&)
#undef DROPOUT

// ---- batch and instance norm ----
namespace {

template <class Layer>
Tensor batch_norm_forward(Layer& layer, const Tensor& input) {
  const bool track = layer.options.track_running_stats();
  double momentum = layer.options.momentum().value_or(0);
  if (layer.is_training() && track && layer.num_batches_tracked.defined()) {
    const NoGradGuard unrecorded;
    layer.num_batches_tracked += 1;
    // Without a momentum the statistics are the average over all batches.
    if (!layer.options.momentum()) momentum = 1.0 / layer.num_batches_tracked.template item<double>();
  }
  return F::batch_norm(input, layer.running_mean, layer.running_var,
                       F::BatchNormFuncOptions()
                           .weight(layer.weight)
                           .bias(layer.bias)
                           .training(layer.is_training() || !track)
                           .momentum(momentum)
                           .eps(layer.options.eps()));
}
template <class Layer>
Tensor instance_norm_forward(Layer& layer, const Tensor& input) {
  return F::instance_norm(input, F::InstanceNormFuncOptions()
                                     .running_mean(layer.running_mean)
                                     .running_var(layer.running_var)
                                     .weight(layer.weight)
                                     .bias(layer.bias)
                                     .use_input_stats(layer.is_training() || !layer.options.track_running_stats())
                                     .momentum(layer.options.momentum())
                                     .eps(layer.options.eps()));
}
void check_rank(const Tensor& input, int64_t least, int64_t most) {
  TORCH_CHECK(input.dim() >= least && input.dim() <= most, "expected ", least, "D",
              least == most ? std::string() : c10::str(" or ", most, "D"), " input (got ", input.dim(), "D input)");
}
double value_of(double momentum) { return momentum; }
double value_of(const optional<double>& momentum) { return momentum.value_or(0); }

}  // namespace

#define NORM(Name, run, least, most)                                                                 \
  Tensor Name##Impl::forward(const Tensor& input) {                                                  \
    _check_input_dim(input);                                                                         \
    return run(*this, input);                                                                        \
  }                                                                                                  \
  void Name##Impl::_check_input_dim(const Tensor& input) { check_rank(input, least, most); }         \
  void Name##Impl::pretty_print(std::ostream& stream) const {                                        \
    stream << "torch::nn::" #Name "(" << options.num_features() << ", eps=" << options.eps()         \
           << ", momentum=" << value_of(options.momentum()) << ", affine=" << text(options.affine()) \
           << ", track_running_stats=" << text(options.track_running_stats()) << ")";                \
  }
NORM(BatchNorm1d, batch_norm_forward, 2, 3)
NORM(BatchNorm2d, batch_norm_forward, 4, 4)
NORM(BatchNorm3d, batch_norm_forward, 5, 5)
NORM(InstanceNorm1d, instance_norm_forward, 2, 3)
NORM(InstanceNorm2d, instance_norm_forward, 3, 4)
NORM(InstanceNorm3d, instance_norm_forward, 4, 5)
#undef NORM

// ---- layer, group and response norm ----
LayerNormImpl::LayerNormImpl(LayerNormOptions options_) : options(std::move(options_)) { reset(); }
void LayerNormImpl::reset() {
  const bool affine = options.elementwise_affine();
  weight = register_parameter("weight", affine ? at::empty(options.normalized_shape()) : Tensor(), affine);
  bias = register_parameter("bias", affine ? at::empty(options.normalized_shape()) : Tensor(), affine);
  reset_parameters();
}
void LayerNormImpl::reset_parameters() {
  if (!options.elementwise_affine()) return;
  init::ones_(weight);
  init::zeros_(bias);
}
Tensor LayerNormImpl::forward(const Tensor& input) {
  return F::layer_norm(
      input, F::LayerNormFuncOptions(options.normalized_shape()).weight(weight).bias(bias).eps(options.eps()));
}
void LayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::LayerNorm(" << IntArrayRef(options.normalized_shape()) << ", eps=" << options.eps()
         << ", elementwise_affine=" << text(options.elementwise_affine()) << ")";
}

GroupNormImpl::GroupNormImpl(const GroupNormOptions& options_) : options(options_) { reset(); }
void GroupNormImpl::reset() {
  const bool affine = options.affine();
  weight = register_parameter("weight", affine ? at::empty({options.num_channels()}) : Tensor(), affine);
  bias = register_parameter("bias", affine ? at::empty({options.num_channels()}) : Tensor(), affine);
  reset_parameters();
}
void GroupNormImpl::reset_parameters() {
  if (!options.affine()) return;
  init::ones_(weight);
  init::zeros_(bias);
}
Tensor GroupNormImpl::forward(const Tensor& input) {
  return F::group_norm(input,
                       F::GroupNormFuncOptions(options.num_groups()).weight(weight).bias(bias).eps(options.eps()));
}
void GroupNormImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::GroupNorm(" << options.num_groups() << ", " << options.num_channels()
         << ", eps=" << options.eps() << ", affine=" << text(options.affine()) << ")";
}

Tensor LocalResponseNormImpl::forward(const Tensor& input) { return F::local_response_norm(input, options); }
void LocalResponseNormImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::LocalResponseNorm(" << options.size() << ", alpha=" << options.alpha()
         << ", beta=" << options.beta() << ", k=" << options.k() << ")";
}
Tensor CrossMapLRN2dImpl::forward(const Tensor& input) {
  return F::local_response_norm(input, LocalResponseNormOptions(options.size())
                                           .alpha(options.alpha())
                                           .beta(options.beta())
                                           .k(static_cast<double>(options.k())));
}
void CrossMapLRN2dImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::CrossMapLRN2d(" << options.size() << ", alpha=" << options.alpha()
         << ", beta=" << options.beta() << ", k=" << options.k() << ")";
}

// ---- losses ----
#define LOSS(Name, function)                                              \
  Tensor Name##Impl::forward(const Tensor& input, const Tensor& target) { \
    return F::function(input, target, options);                           \
  }                                                                       \
  void Name##Impl::pretty_print(std::ostream& stream) const {             \
    stream << "torch::nn::" #Name "(";                                    \
    print_margin(stream, options);                                        \
  }
namespace {
template <class Options>
void print_margin(std::ostream& stream, const Options&) {
  stream << ")";
}
void print_margin(std::ostream& stream, const HingeEmbeddingLossOptions& options) {
  stream << "margin=" << options.margin() << ")";
}
void print_margin(std::ostream& stream, const MultiMarginLossOptions& options) {
  stream << "p=" << options.p() << ", margin=" << options.margin();
  if (options.weight().defined()) stream << ", weight=" << options.weight();
  stream << ", reduction=" << enumtype::get_enum_name(options.reduction()) << ")";
}
}  // namespace
LOSS(L1Loss, l1_loss)
LOSS(KLDivLoss, kl_div)
LOSS(MSELoss, mse_loss)
LOSS(BCELoss, binary_cross_entropy)
LOSS(BCEWithLogitsLoss, binary_cross_entropy_with_logits)
LOSS(HingeEmbeddingLoss, hinge_embedding_loss)
LOSS(MultiMarginLoss, multi_margin_loss)
LOSS(MultiLabelMarginLoss, multilabel_margin_loss)
LOSS(MultiLabelSoftMarginLoss, multilabel_soft_margin_loss)
LOSS(SoftMarginLoss, soft_margin_loss)
LOSS(SmoothL1Loss, smooth_l1_loss)
LOSS(HuberLoss, huber_loss)
LOSS(PoissonNLLLoss, poisson_nll_loss)
LOSS(NLLLoss, nll_loss)
LOSS(CrossEntropyLoss, cross_entropy)
#undef LOSS

Tensor CosineEmbeddingLossImpl::forward(const Tensor& input1, const Tensor& input2, const Tensor& target) {
  return F::cosine_embedding_loss(input1, input2, target, options);
}
void CosineEmbeddingLossImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::CosineEmbeddingLoss(margin=" << options.margin() << ")";
}
Tensor MarginRankingLossImpl::forward(const Tensor& input1, const Tensor& input2, const Tensor& target) {
  return F::margin_ranking_loss(input1, input2, target, options);
}
void MarginRankingLossImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::MarginRankingLoss()"; }
Tensor TripletMarginLossImpl::forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) {
  return F::triplet_margin_loss(anchor, positive, negative, options);
}
void TripletMarginLossImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::TripletMarginLoss(margin=" << options.margin() << ", p=" << options.p()
         << ", eps=" << options.eps() << ", swap=" << text(options.swap()) << ")";
}
Tensor TripletMarginWithDistanceLossImpl::forward(const Tensor& anchor, const Tensor& positive,
                                                  const Tensor& negative) {
  return F::triplet_margin_with_distance_loss(anchor, positive, negative, options);
}
void TripletMarginWithDistanceLossImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::TripletMarginWithDistanceLoss(margin=" << options.margin() << ", swap=" << text(options.swap())
         << ")";
}
Tensor CTCLossImpl::forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                            const Tensor& target_lengths) {
  return F::ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
}
void CTCLossImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::CTCLoss()"; }

}  // namespace torch::nn
