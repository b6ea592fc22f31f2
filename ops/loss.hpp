// Losses. Each is differentiable to any order in its floating-point arguments, and takes its options as
// `{.reduction = LossReduction::sum, ...}`. Results are 0-d or, with LossReduction::none, have the shape of the single
// losses. Where x and y broadcast, two tensors of different shapes give a warning.
//
// DTypeError unless x (the logits) is floating, DeviceError where devices differ, ShapeError where shapes do not fit. A
// function of your own that has one of these names and takes `const Tensor&` is the better match where both can be
// called.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// How the losses of single elements are combined.
enum class LossReduction : uint8_t { none, mean, sum };

struct LossOptions {
  LossReduction reduction = LossReduction::mean;
};

struct CrossEntropyOptions {
  /// [C], floating: a factor for each class. With class indices the mean divides by the sum of the targets' weights.
  Tensor weight = {};
  LossReduction reduction = LossReduction::mean;
  /// Class indices of this value give no loss and do not count in the mean.
  int64_t ignore_index = -100;
  /// Weight of the uniform distribution that is mixed into the target, from 0 to 1.
  double label_smoothing = 0;
};

/// Cross entropy between softmax(logits) and class indices. logits are [N, C], [C] or [N, C, d1, …]; targets (integers
/// in [0, C)) have that shape without C, or floating targets of the logits' own shape are distributions over the
/// classes. The result is in the logits' dtype, for no reduction in the shape without C; with nothing to count the mean
/// is NaN. 16-bit floats are computed in f32. IndexError for a target outside the classes, DTypeError for other
/// targets, ValueError for a label_smoothing outside [0, 1]. Smoothing as in Szegedy et al. 2016.
WEFT_API Tensor cross_entropy(const Operand& logits, const Operand& targets, CrossEntropyOptions options = {},
                              Location where = {});

struct NllOptions {
  /// As for cross_entropy.
  Tensor weight = {};
  LossReduction reduction = LossReduction::mean;
  int64_t ignore_index = -100;
};
/// -log_probabilities[target]: with log_softmax before it, cross_entropy by class indices. Shapes and errors as there.
WEFT_API Tensor nll_loss(const Operand& log_probabilities, const Operand& targets, NllOptions options = {},
                         Location where = {});

/// (x - y)²; x and y broadcast.
WEFT_API Tensor mse_loss(const Operand& x, const Operand& y, LossOptions options = {}, Location where = {});
/// |x - y|; x and y broadcast.
WEFT_API Tensor l1_loss(const Operand& x, const Operand& y, LossOptions options = {}, Location where = {});

struct HuberOptions {
  LossReduction reduction = LossReduction::mean;
  double delta = 1;
};
/// d² / 2 where d = |x - y| is below delta, else delta (d - delta / 2) (Huber 1964). ValueError unless delta > 0.
WEFT_API Tensor huber_loss(const Operand& x, const Operand& y, HuberOptions options = {}, Location where = {});

struct SmoothL1Options {
  LossReduction reduction = LossReduction::mean;
  double beta = 1;
};
/// huber_loss / beta; l1_loss where beta is 0. ValueError for a negative beta.
WEFT_API Tensor smooth_l1_loss(const Operand& x, const Operand& y, SmoothL1Options options = {}, Location where = {});

struct BinaryCrossEntropyOptions {
  /// A factor of each loss; broadcasts.
  Tensor weight = {};
  /// A factor of the first term, for classes of different frequency; broadcasts.
  Tensor pos_weight = {};
  LossReduction reduction = LossReduction::mean;
};
/// -(pos_weight y log σ(x) + (1 - y) log(1 - σ(x))) weight from logits x without overflow; x and y broadcast.
WEFT_API Tensor binary_cross_entropy_with_logits(const Operand& x, const Operand& y,
                                                 BinaryCrossEntropyOptions options = {}, Location where = {});

}  // namespace weft
