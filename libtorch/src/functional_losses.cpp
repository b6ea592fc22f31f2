// torch::nn::functional: losses.
#include <torch/nn/functional.h>

#include <weft/ops/loss.hpp>

namespace torch::nn::functional {

namespace {

template <class V>
weft::LossReduction reduction_of(const V& choice) {
  return static_cast<weft::LossReduction>(enumtype::reduction_get_enum(choice));
}
#define REDUCTION .reduction = reduction_of(options.reduction())

}  // namespace

#define LOSS(name, Options, ...)                                                   \
  Tensor name(const Tensor& input, const Tensor& target, const Options& options) { \
    return weft::name(input, target, {__VA_ARGS__});                               \
  }
LOSS(l1_loss, L1LossFuncOptions, REDUCTION)
LOSS(mse_loss, MSELossFuncOptions, REDUCTION)
LOSS(multilabel_margin_loss, MultilabelMarginLossFuncOptions, REDUCTION)
LOSS(soft_margin_loss, SoftMarginLossFuncOptions, REDUCTION)
LOSS(binary_cross_entropy, BinaryCrossEntropyFuncOptions, .weight = options.weight(), REDUCTION)
LOSS(multilabel_soft_margin_loss, MultilabelSoftMarginLossFuncOptions, .weight = options.weight(), REDUCTION)
LOSS(hinge_embedding_loss, HingeEmbeddingLossFuncOptions, REDUCTION, .margin = options.margin())
LOSS(multi_margin_loss, MultiMarginLossFuncOptions, .weight = options.weight(), REDUCTION,
     .p = static_cast<int>(options.p()), .margin = options.margin())
LOSS(smooth_l1_loss, SmoothL1LossFuncOptions, REDUCTION, .beta = options.beta())
LOSS(huber_loss, HuberLossFuncOptions, REDUCTION, .delta = options.delta())
LOSS(poisson_nll_loss, PoissonNLLLossFuncOptions, REDUCTION, .log_input = options.log_input(), .full = options.full(),
     .eps = options.eps())
LOSS(nll_loss, NLLLossFuncOptions, .weight = options.weight(), REDUCTION, .ignore_index = options.ignore_index())
LOSS(cross_entropy, CrossEntropyFuncOptions, .weight = options.weight(), REDUCTION,
     .ignore_index = options.ignore_index(), .label_smoothing = options.label_smoothing())
#undef LOSS

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossFuncOptions& options, double beta) {
  return weft::smooth_l1_loss(input, target, {REDUCTION, .beta = beta});
}
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyWithLogitsFuncOptions& options) {
  TORCH_CHECK(input.shape() == target.shape(), "Target size (", target.sizes(), ") must be the same as input size (",
              input.sizes(), ")");
  return weft::binary_cross_entropy_with_logits(
      input, target, {.weight = options.weight(), .pos_weight = options.pos_weight(), REDUCTION});
}
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivFuncOptions& options) {
  const bool batch_mean = std::holds_alternative<enumtype::kBatchMean>(options.reduction());
  const weft::LossReduction reduction = batch_mean ? weft::LossReduction::sum : reduction_of(options.reduction());
  const Tensor loss = weft::kl_div(input, target, {.reduction = reduction, .log_target = options.log_target()});
  return batch_mean && input.dim() != 0 ? loss / input.size(0) : loss;
}
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             const CosineEmbeddingLossFuncOptions& options) {
  return weft::cosine_embedding_loss(input1, input2, target, {REDUCTION, .margin = options.margin()});
}
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           const MarginRankingLossFuncOptions& options) {
  return weft::margin_ranking_loss(input1, input2, target, {REDUCTION, .margin = options.margin()});
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossFuncOptions& options) {
  return weft::triplet_margin_loss(
      anchor, positive, negative,
      {REDUCTION, .margin = options.margin(), .p = options.p(), .eps = options.eps(), .swap = options.swap()});
}
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const TripletMarginWithDistanceLossFuncOptions& options) {
  weft::DistanceFunction distance;
  if (options.distance_function()) {
    distance = [f = *options.distance_function()](const weft::Tensor& a, const weft::Tensor& b) -> weft::Tensor {
      return f(a, b);
    };
  } else {
    distance = [](const weft::Tensor& a, const weft::Tensor& b) -> weft::Tensor { return at::pairwise_distance(a, b); };
  }
  return weft::triplet_margin_with_distance_loss(anchor, positive, negative, distance,
                                                 {REDUCTION, .margin = options.margin(), .swap = options.swap()});
}
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossFuncOptions& options) {
  return weft::ctc_loss(log_probs, targets, input_lengths, target_lengths,
                        {.blank = options.blank(), REDUCTION, .zero_infinity = options.zero_infinity()});
}

}  // namespace torch::nn::functional
