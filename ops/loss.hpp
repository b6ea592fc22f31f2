// Losses. Each is differentiable to any order in its floating-point arguments.
#pragma once

#include <weft/tensor/tensor.hpp>

namespace weft {

/// What becomes of the losses of single elements.
enum class LossReduction : uint8_t { none, mean, sum };

struct CrossEntropyOptions {
  LossReduction reduction = LossReduction::mean;
  /// Targets of this value give no loss and do not count in the mean.
  int64_t ignore_index = -100;
  /// Weight of the uniform distribution that is mixed into the target, from 0 to 1.
  double label_smoothing = 0;
};

/// Cross entropy between softmax(logits) and class indices. logits are [N, C], [C] or [N, C, d1, …], targets (integers
/// in [0, C)) have that shape without C. The result is 0-d, or has the targets' shape with LossReduction::none, in the
/// logits' dtype; with nothing to count the mean is NaN. 16-bit floats are computed in f32. ShapeError, DTypeError, and
/// IndexError for a target outside the classes. Smoothing as in Szegedy et al. 2016.
WEFT_API Tensor cross_entropy(const Tensor& logits, const Tensor& targets, CrossEntropyOptions options = {},
                              Location where = {});

struct NllOptions {
  LossReduction reduction = LossReduction::mean;
  int64_t ignore_index = -100;
};
/// -log_probabilities[target]: cross_entropy after log_softmax. Shapes and errors as there.
WEFT_API Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, NllOptions options = {},
                         Location where = {});

/// (x - y)²; x and y broadcast.
WEFT_API Tensor mse_loss(const Tensor& x, const Tensor& y, LossReduction reduction = LossReduction::mean,
                         Location where = {});
/// |x - y|; x and y broadcast.
WEFT_API Tensor l1_loss(const Tensor& x, const Tensor& y, LossReduction reduction = LossReduction::mean,
                        Location where = {});
/// d² / 2 where d = |x - y| is below delta, else delta (d - delta / 2) (Huber 1964). ValueError unless delta > 0.
WEFT_API Tensor huber_loss(const Tensor& x, const Tensor& y, double delta = 1,
                           LossReduction reduction = LossReduction::mean, Location where = {});
/// huber_loss / beta; l1_loss where beta is 0. ValueError for a negative beta.
WEFT_API Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta = 1,
                               LossReduction reduction = LossReduction::mean, Location where = {});
/// -(y log σ(x) + (1 - y) log(1 - σ(x))) from logits x without overflow; x and y broadcast.
WEFT_API Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                                 LossReduction reduction = LossReduction::mean, Location where = {});

}  // namespace weft
