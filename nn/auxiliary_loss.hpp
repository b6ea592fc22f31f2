// Auxiliary losses: losses of inner layers, such as the balance loss of a router, that are not part of the model's
// output.
//
//   Tensor forward(const Tensor& x, Location) const {
//     const Tensor h = encoder(x);
//     return nn::add_auxiliary_loss(decoder(h), mean(square(h)), 0.01);   // same gradients as loss + 0.01 · mean(h²)
//   }
#pragma once

#include "../tensor/index.hpp"

namespace weft::nn {

/// Returns an alias of y. Its backward passes to `loss`, which has one element, the gradient `weight` times the
/// thread's auxiliary loss scale, once for each backward through y. Returns y itself if `loss` requires no gradient.
/// Raises ShapeError for a loss of another size, DTypeError if it is not floating-point.
WEFT_API Tensor add_auxiliary_loss(const Tensor& y, const Tensor& loss, double weight = 1, Location where = {});

/// Multiplies the auxiliary losses of backward passes on this thread by `scale` until destruction. `scale` is the
/// factor of the main loss: 1 / k if (loss / k).backward() accumulates k gradients, own / mean_weight(own) between
/// replicas of unequal weight, and the scale of a GradScaler. Nested scales multiply. train::Stepper, train::Trainer,
/// distributed::Pipeline and distributed::ParallelTraining set it for each batch and micro-batch. So a step has the
/// gradient of the sum of weight / sum of weights · (loss + auxiliary losses) over its batches.
class WEFT_API AuxiliaryLossScale {
 public:
  explicit AuxiliaryLossScale(double scale);
  ~AuxiliaryLossScale();
  AuxiliaryLossScale(const AuxiliaryLossScale&) = delete;
  AuxiliaryLossScale& operator=(const AuxiliaryLossScale&) = delete;

 private:
  double outer_;
};

}  // namespace weft::nn
