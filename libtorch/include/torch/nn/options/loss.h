// Options of losses.
#pragma once

#include <functional>

#include <torch/arg.h>
#include <torch/enum.h>
#include <torch/types.h>

namespace torch::nn {

#define TORCH_REDUCTION                                                               \
 public:                                                                              \
  using reduction_t = std::variant<enumtype::kNone, enumtype::kMean, enumtype::kSum>; \
  TORCH_ARG(reduction_t, reduction) = torch::kMean;
/// Options may be made of the reduction alone: L1LossOptions(torch::kSum).
#define TORCH_FROM_REDUCTION(Name)                                                                                     \
  Name() = default;                                                                                                    \
  template <class T>                                                                                                   \
    requires std::is_constructible_v<std::variant<enumtype::kNone, enumtype::kMean, enumtype::kSum>, T> Name(T choice) \
        : reduction_(choice) {}
#define TORCH_PLAIN_LOSS(Name) \
  struct Name {                \
    TORCH_FROM_REDUCTION(Name) \
    TORCH_REDUCTION            \
  };
TORCH_PLAIN_LOSS(L1LossOptions)
TORCH_PLAIN_LOSS(MSELossOptions)
TORCH_PLAIN_LOSS(MultiLabelMarginLossOptions)
TORCH_PLAIN_LOSS(SoftMarginLossOptions)
#undef TORCH_PLAIN_LOSS
struct KLDivLossOptions {
  using reduction_t = std::variant<enumtype::kNone, enumtype::kBatchMean, enumtype::kSum, enumtype::kMean>;
  KLDivLossOptions() = default;
  template <class T>
    requires std::is_constructible_v<reduction_t, T> KLDivLossOptions(T choice) : reduction_(choice) {}
    TORCH_ARG(reduction_t, reduction) = torch::kMean;
    TORCH_ARG(bool, log_target) = false;
};
struct BCELossOptions {
  TORCH_ARG(Tensor, weight) = {};
  TORCH_REDUCTION
};
struct BCEWithLogitsLossOptions {
  TORCH_ARG(Tensor, weight) = {};
  TORCH_REDUCTION
  TORCH_ARG(Tensor, pos_weight) = {};
};
struct HingeEmbeddingLossOptions {
  TORCH_ARG(double, margin) = 1.0;
  TORCH_REDUCTION
};
struct MultiMarginLossOptions {
  TORCH_ARG(int64_t, p) = 1;
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(Tensor, weight) = Tensor();
  TORCH_REDUCTION
};
struct CosineEmbeddingLossOptions {
  TORCH_ARG(double, margin) = 0.0;
  TORCH_REDUCTION
};
struct MultiLabelSoftMarginLossOptions {
  TORCH_ARG(Tensor, weight) = Tensor();
  TORCH_REDUCTION
};
struct TripletMarginLossOptions {
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(double, p) = 2.0;
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(bool, swap) = false;
  TORCH_REDUCTION
};
struct TripletMarginWithDistanceLossOptions {
  using distance_function_t = std::function<Tensor(const Tensor&, const Tensor&)>;
  TORCH_ARG(optional<distance_function_t>, distance_function) = nullopt;
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(bool, swap) = false;
  TORCH_REDUCTION
};
struct CTCLossOptions {
  TORCH_ARG(int64_t, blank) = 0;
  TORCH_REDUCTION
  TORCH_ARG(bool, zero_infinity) = false;
};
struct SmoothL1LossOptions {
  TORCH_FROM_REDUCTION(SmoothL1LossOptions)
  TORCH_REDUCTION
  TORCH_ARG(double, beta) = 1.0;
};
struct HuberLossOptions {
  TORCH_FROM_REDUCTION(HuberLossOptions)
  TORCH_REDUCTION
  TORCH_ARG(double, delta) = 1.0;
};
struct PoissonNLLLossOptions {
  TORCH_ARG(bool, log_input) = true;
  TORCH_ARG(bool, full) = false;
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_REDUCTION
};
struct MarginRankingLossOptions {
  TORCH_ARG(double, margin) = 0;
  TORCH_REDUCTION
};
struct NLLLossOptions {
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(int64_t, ignore_index) = -100;
  TORCH_REDUCTION
};
struct CrossEntropyLossOptions {
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(int64_t, ignore_index) = -100;
  TORCH_REDUCTION
  TORCH_ARG(double, label_smoothing) = 0.0;
};
#undef TORCH_REDUCTION
#undef TORCH_FROM_REDUCTION

namespace functional {
using L1LossFuncOptions = L1LossOptions;
using KLDivFuncOptions = KLDivLossOptions;
using MSELossFuncOptions = MSELossOptions;
using BinaryCrossEntropyFuncOptions = BCELossOptions;
using HingeEmbeddingLossFuncOptions = HingeEmbeddingLossOptions;
using MultiMarginLossFuncOptions = MultiMarginLossOptions;
using CosineEmbeddingLossFuncOptions = CosineEmbeddingLossOptions;
using MultilabelMarginLossFuncOptions = MultiLabelMarginLossOptions;
using SoftMarginLossFuncOptions = SoftMarginLossOptions;
using MultilabelSoftMarginLossFuncOptions = MultiLabelSoftMarginLossOptions;
using TripletMarginLossFuncOptions = TripletMarginLossOptions;
using TripletMarginWithDistanceLossFuncOptions = TripletMarginWithDistanceLossOptions;
using CTCLossFuncOptions = CTCLossOptions;
using SmoothL1LossFuncOptions = SmoothL1LossOptions;
using HuberLossFuncOptions = HuberLossOptions;
using PoissonNLLLossFuncOptions = PoissonNLLLossOptions;
using MarginRankingLossFuncOptions = MarginRankingLossOptions;
using NLLLossFuncOptions = NLLLossOptions;
using CrossEntropyFuncOptions = CrossEntropyLossOptions;
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;
}  // namespace functional
}  // namespace torch::nn
