// Loss layers, with the options of the functions in <weft/ops/loss.hpp>, which documents formulas, shapes and errors.
// Weights among the options are buffers: `to` moves them, and state dicts contain them.
//
//   nn::CrossEntropyLoss criterion({.label_smoothing = 0.1});
//   criterion(net(x), y).backward();
#pragma once

#include "config.hpp"
#include "module.hpp"
#include "../ops/loss.hpp"

namespace weft::nn {

namespace detail {

/// The options of a loss, with the shapes of its weights. Raises ValueError for options that the loss refuses.
template <class Options>
WEFT_API Config loss_config(const Options& options, const std::string& layer, Location where);

template <class Self, auto function, class Options>
class Loss : public Layer<Self> {
 public:
  // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): as Layer
  explicit Loss(Options options = {}, Location where = {}) : options_(std::move(options)) {
    this->set_config(loss_config(options_, this->class_name(), where));
    this->set_extra_repr({});
    if constexpr (requires { options_.weight; }) hold("weight", weight_, std::exchange(options_.weight, {}));
    if constexpr (requires { options_.pos_weight; })
      hold("pos_weight", pos_weight_, std::exchange(options_.pos_weight, {}));
  }

  Tensor forward(const Tensor& x, const Tensor& y, Location where) const requires requires {
    function(x, y, Options(), where);
  }
  { return function(Operand(x, where), y, options(where), where); }
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c, Location where) const requires requires {
    function(a, b, c, Options(), where);
  }
  { return function(Operand(a, where), b, c, options(where), where); }
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d,
                 Location where) const requires requires {
    function(a, b, c, d, Options(), where);
  }
  { return function(Operand(a, where), b, c, d, options(where), where); }

 private:
  void hold(const char* name, Buffer& buffer, const Tensor& weight) {
    if (weight.defined()) buffer = Buffer(weight);
    this->register_buffer(name, buffer);
  }
  Options options(Location where) const {
    Options out = options_;
    if constexpr (requires { out.weight; }) out.weight = this->borrowed(weight_, where);
    if constexpr (requires { out.pos_weight; }) out.pos_weight = this->borrowed(pos_weight_, where);
    return out;
  }

  Options options_;
  Buffer weight_, pos_weight_;
};

}  // namespace detail

// clang-format off
struct WEFT_API CrossEntropyLoss : detail::Loss<CrossEntropyLoss, cross_entropy, CrossEntropyOptions> { using Loss::Loss; };
struct WEFT_API NLLLoss : detail::Loss<NLLLoss, nll_loss, NllOptions> { using Loss::Loss; };
struct WEFT_API MSELoss : detail::Loss<MSELoss, mse_loss, LossOptions> { using Loss::Loss; };
struct WEFT_API L1Loss : detail::Loss<L1Loss, l1_loss, LossOptions> { using Loss::Loss; };
struct WEFT_API HuberLoss : detail::Loss<HuberLoss, huber_loss, HuberOptions> { using Loss::Loss; };
struct WEFT_API SmoothL1Loss : detail::Loss<SmoothL1Loss, smooth_l1_loss, SmoothL1Options> { using Loss::Loss; };
struct WEFT_API BCEWithLogitsLoss : detail::Loss<BCEWithLogitsLoss, binary_cross_entropy_with_logits, BinaryCrossEntropyOptions> { using Loss::Loss; };
struct WEFT_API BCELoss : detail::Loss<BCELoss, binary_cross_entropy, PlainBinaryOptions> { using Loss::Loss; };
struct WEFT_API KLDivLoss : detail::Loss<KLDivLoss, kl_div, KlOptions> { using Loss::Loss; };
/// Takes means, targets and variances.
struct WEFT_API GaussianNLLLoss : detail::Loss<GaussianNLLLoss, gaussian_nll_loss, GaussianNllOptions> { using Loss::Loss; };
struct WEFT_API PoissonNLLLoss : detail::Loss<PoissonNLLLoss, poisson_nll_loss, PoissonNllOptions> { using Loss::Loss; };
/// Takes two inputs and the targets.
struct WEFT_API CosineEmbeddingLoss : detail::Loss<CosineEmbeddingLoss, cosine_embedding_loss, MarginOptions> { using Loss::Loss; };
struct WEFT_API HingeEmbeddingLoss : detail::Loss<HingeEmbeddingLoss, hinge_embedding_loss, HingeOptions> { using Loss::Loss; };
/// Takes two inputs and the targets.
struct WEFT_API MarginRankingLoss : detail::Loss<MarginRankingLoss, margin_ranking_loss, MarginOptions> { using Loss::Loss; };
struct WEFT_API SoftMarginLoss : detail::Loss<SoftMarginLoss, soft_margin_loss, LossOptions> { using Loss::Loss; };
struct WEFT_API MultiMarginLoss : detail::Loss<MultiMarginLoss, multi_margin_loss, MultiMarginOptions> { using Loss::Loss; };
struct WEFT_API MultiLabelMarginLoss : detail::Loss<MultiLabelMarginLoss, multilabel_margin_loss, LossOptions> { using Loss::Loss; };
struct WEFT_API MultiLabelSoftMarginLoss : detail::Loss<MultiLabelSoftMarginLoss, multilabel_soft_margin_loss, PlainBinaryOptions> { using Loss::Loss; };
/// Takes anchors, positives and negatives.
struct WEFT_API TripletMarginLoss : detail::Loss<TripletMarginLoss, triplet_margin_loss, TripletOptions> { using Loss::Loss; };
/// Takes log-probabilities, targets, input lengths and target lengths.
struct WEFT_API CTCLoss : detail::Loss<CTCLoss, ctc_loss, CtcOptions> { using Loss::Loss; };
// clang-format on

/// Takes anchors, positives and negatives, with a user-defined distance.
class WEFT_API TripletMarginWithDistanceLoss : public Layer<TripletMarginWithDistanceLoss> {
 public:
  explicit TripletMarginWithDistanceLoss(DistanceFunction distance, TripletDistanceOptions options = {},
                                         Location where = {});
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative, Location where) const {
    return triplet_margin_with_distance_loss(anchor, positive, negative, distance_, options_, where);
  }

 private:
  DistanceFunction distance_;
  TripletDistanceOptions options_;
};

}  // namespace weft::nn
