// The loss of one of several batches in a step.
#pragma once

#include <optional>
#include <utility>

#include "../tensor/tensor.hpp"

namespace weft::optim {

/// The mean loss of a batch, and the number of samples or tokens in the mean, which is the batch's weight in the step.
/// Divide a sum by the weight: `BatchLoss(cross_entropy(y, t, {.reduction = LossReduction::sum}) / n, n)`. A batch of
/// weight 0, such as one without any counted token, is skipped, and its mean may be NaN.
struct BatchLoss {
  BatchLoss(Tensor mean_) : mean(std::move(mean_)) {}
  BatchLoss(Tensor mean_, double weight_) : mean(std::move(mean_)), weight(weight_) {}

  Tensor mean;
  std::optional<double> weight;
};

}  // namespace weft::optim
