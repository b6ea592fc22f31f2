// Losses of layers inside a model, such as those that balance a router, of which what is made of the model's output
// knows nothing.
//
//   Tensor forward(const Tensor& x, Location) const {
//     const Tensor h = encoder(x);
//     return nn::add_auxiliary_loss(decoder(h), mean(square(h)), 0.01);   // as if the loss had 0.01 · mean(h²) more
//   }
#pragma once

#include "../tensor/index.hpp"

namespace weft::nn {

/// y, which it shares memory with, and whose backward gives `loss`, of one element, the gradient `weight` times the
/// thread's scale then, once for each backward that comes through y. y itself where `loss` needs no gradient.
/// ShapeError for a loss of another size, DTypeError for one that is not floating.
WEFT_API Tensor add_auxiliary_loss(const Tensor& y, const Tensor& loss, double weight = 1, Location where = {});

/// While it lives, backward on this thread multiplies auxiliary losses by `scale`, as what it starts from is: 1 / k
/// where (loss / k).backward() is one of k, and a GradScaler's scale. Ones within each other multiply. train::Stepper,
/// train::Trainer and distributed::ParallelTraining do so.
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
