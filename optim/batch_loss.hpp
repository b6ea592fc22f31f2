// The loss of one of several batches that make a step.
#pragma once

#include <optional>
#include <utility>

#include "../tensor/tensor.hpp"

namespace weft::optim {

/// The mean loss of a batch, and of how many samples or tokens it is the mean: batches of a step count by these
/// weights. A sum has the weight as divisor: `BatchLoss(cross_entropy(y, t, {.reduction = LossReduction::sum}) / n,
/// n)`. A batch of weight 0, such as one without a token that counts, is left out, and its mean may be NaN.
struct BatchLoss {
  BatchLoss(Tensor mean_) : mean(std::move(mean_)) {}
  BatchLoss(Tensor mean_, double weight_) : mean(std::move(mean_)), weight(weight_) {}

  Tensor mean;
  std::optional<double> weight;
};

}  // namespace weft::optim
