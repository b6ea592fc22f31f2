// Helpers of the losses. Not public.
#pragma once

#include <string>

#include "../../autograd/program_watch.hpp"
#include "../loss.hpp"
#include "common.hpp"
#include "reducing.hpp"

namespace weft {

/// "mean", "sum" or "none", else ValueError.
LossReduction reduction_named(const std::string& name);

Tensor reduce_losses(const Tensor& losses, LossReduction reduction);
/// The result from losses in the compute type.
inline Tensor reduced_to(DType dtype, const Tensor& losses, LossReduction reduction) {
  return reduce_losses(losses, reduction).to(dtype);
}

/// Two operands in the type that they are computed in, and the type of the result.
struct LossPair {
  Tensor x, y;
  DType dtype;
};
/// DTypeError unless x is floating.
LossPair loss_pair(const Tensor& x, const Tensor& y);

/// Warns where the shapes of x and y differ: [4, 1] against [4] is a matrix of losses, which still trains, to nonsense.
void warn_of_broadcast(const Tensor& x, const Tensor& y, const Tensor& both);

/// In every loss that compares predictions with targets, before anything is computed.
inline void tell_watch_of_loss(const Tensor& predictions, const Tensor& targets) {
  if (WEFT_LIKELY(detail::program_watch == nullptr) || !should_record(predictions)) return;
  detail::program_watch->compared(predictions, targets);
}

/// x, but `least` where it is below; the gradient passes there, too.
Tensor raised_to(const Tensor& x, double least);

}  // namespace weft
