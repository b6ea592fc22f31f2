// Losses. Each is differentiable to any order in its floating-point arguments, and takes its options as
// `{.reduction = LossReduction::sum, ...}`. Results are 0-d or, with LossReduction::none, have the shape of the single
// losses. Where x and y broadcast, two tensors of different shapes give a warning.
//
// DTypeError unless x (the logits) is floating, DeviceError where devices differ, ShapeError where shapes do not fit. A
// function of your own that has one of these names and takes `const Tensor&` is the better match where both can be
// called.
//
// Losses take `const Operand&`, so that a user's function of `const Tensor&` with the same name is the better match.
#pragma once

#include "../tensor/callback.hpp"
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
/// targets, ValueError for a label_smoothing outside [0, 1] and for an ignore_index from 0 on
/// with distributions. Smoothing as in Szegedy et al. 2016.
[[nodiscard]] WEFT_API Tensor cross_entropy(const Operand& logits, const Operand& targets,
                                            CrossEntropyOptions options = {}, Location where = {});

struct NllOptions {
  /// As for cross_entropy.
  Tensor weight = {};
  LossReduction reduction = LossReduction::mean;
  int64_t ignore_index = -100;
};
/// -log_probabilities[target]: with log_softmax before it, cross_entropy by class indices. Shapes and errors as there.
[[nodiscard]] WEFT_API Tensor nll_loss(const Operand& log_probabilities, const Operand& targets,
                                       NllOptions options = {}, Location where = {});

/// (x - y)²; x and y broadcast. The dtypes promote. Errors as above.
[[nodiscard]] WEFT_API Tensor mse_loss(const Operand& x, const Operand& y, LossOptions options = {},
                                       Location where = {});
/// |x - y|; x and y broadcast. The dtypes promote. Errors as above.
[[nodiscard]] WEFT_API Tensor l1_loss(const Operand& x, const Operand& y, LossOptions options = {},
                                      Location where = {});

struct HuberOptions {
  LossReduction reduction = LossReduction::mean;
  double delta = 1;
};
/// d² / 2 where d = |x - y| is below delta, else delta (d - delta / 2) (Huber 1964). ValueError unless delta > 0.
[[nodiscard]] WEFT_API Tensor huber_loss(const Operand& x, const Operand& y, HuberOptions options = {},
                                         Location where = {});

struct SmoothL1Options {
  LossReduction reduction = LossReduction::mean;
  double beta = 1;
};
/// huber_loss / beta; l1_loss where beta is 0. ValueError for a negative beta.
[[nodiscard]] WEFT_API Tensor smooth_l1_loss(const Operand& x, const Operand& y, SmoothL1Options options = {},
                                             Location where = {});

struct BinaryCrossEntropyOptions {
  /// A factor of each loss; broadcasts.
  Tensor weight = {};
  /// A factor of the first term, for classes of different frequency; broadcasts.
  Tensor pos_weight = {};
  LossReduction reduction = LossReduction::mean;
};
/// -(pos_weight y log σ(x) + (1 - y) log(1 - σ(x))) weight from logits x without overflow; x and y broadcast. Errors as
/// above.
[[nodiscard]] WEFT_API Tensor binary_cross_entropy_with_logits(const Operand& x, const Operand& y,
                                                               BinaryCrossEntropyOptions options = {},
                                                               Location where = {});

struct PlainBinaryOptions {
  /// A factor of each loss; broadcasts to x's shape.
  Tensor weight = {};
  LossReduction reduction = LossReduction::mean;
};
/// -(y log x + (1 - y) log(1 - x)) weight from probabilities x, with the logarithms not below -100; x and y have one
/// shape. The gradient of x is (x - y) / max(x (1 - x), 1e-12), and that of y follows the logarithms themselves.
/// ValueError where a number of x or y is outside [0, 1], which waits for a device.
[[nodiscard]] WEFT_API Tensor binary_cross_entropy(const Operand& x, const Operand& y, PlainBinaryOptions options = {},
                                                   Location where = {});

struct KlOptions {
  LossReduction reduction = LossReduction::mean;
  /// y holds log-probabilities.
  bool log_target = false;
};
/// y (log y - x), the pointwise Kullback-Leibler divergence of log-probabilities x from probabilities y, 0 where y is
/// 0; x and y broadcast. The divergence of a batch is the sum over its size. DTypeError unless y is floating, too.
[[nodiscard]] WEFT_API Tensor kl_div(const Operand& x, const Operand& y, KlOptions options = {}, Location where = {});

struct GaussianNllOptions {
  LossReduction reduction = LossReduction::mean;
  /// Adds the constant log(2 pi) / 2.
  bool full = false;
  /// The least variance; below it the gradient still passes.
  double eps = 1e-6;
};
/// (log v + (x - y)² / v) / 2, the negative log-likelihood of y under a normal distribution of mean x and variance v
/// (Nix and Weigend 1994). v is a number or has x's shape, without its last dimension or with 1 in one place (else
/// ShapeError). ValueError where a variance is negative, which waits for a device.
[[nodiscard]] WEFT_API Tensor gaussian_nll_loss(const Operand& x, const Operand& y, const Operand& variance,
                                                GaussianNllOptions options = {}, Location where = {});

struct PoissonNllOptions {
  LossReduction reduction = LossReduction::mean;
  /// x is the logarithm of the rate.
  bool log_input = true;
  /// Adds Stirling's approximation of log y! where y is above 1.
  bool full = false;
  /// Added to the rate before its logarithm is taken.
  double eps = 1e-8;
};
/// exp(x) - y x, or x - y log(x + eps): the negative log-likelihood of counts y under a Poisson distribution. x and y
/// broadcast. Errors as above.
[[nodiscard]] WEFT_API Tensor poisson_nll_loss(const Operand& x, const Operand& y, PoissonNllOptions options = {},
                                               Location where = {});

struct MarginOptions {
  LossReduction reduction = LossReduction::mean;
  double margin = 0;
};
/// 1 - cos(a, b) for similar pairs (y = 1), max(0, cos(a, b) - margin) for dissimilar pairs (y = -1), else 0. a and b
/// are [N, D] with y [N], or [D] with y 0-d (else ShapeError).
[[nodiscard]] WEFT_API Tensor cosine_embedding_loss(const Operand& a, const Operand& b, const Operand& y,
                                                    MarginOptions options = {}, Location where = {});
struct HingeOptions {
  LossReduction reduction = LossReduction::mean;
  double margin = 1;
};
/// x where y is 1, max(0, margin - x) where y is -1, the sum of both elsewhere; x and y broadcast. Errors as above.
[[nodiscard]] WEFT_API Tensor hinge_embedding_loss(const Operand& x, const Operand& y, HingeOptions options = {},
                                                   Location where = {});
/// max(0, margin - y (a - b)): a is to be above b where y is 1, below where it is -1. The three broadcast and have one
/// rank (else ShapeError).
[[nodiscard]] WEFT_API Tensor margin_ranking_loss(const Operand& a, const Operand& b, const Operand& y,
                                                  MarginOptions options = {}, Location where = {});
/// log(1 + exp(-y x)) without overflow; y is 1 or -1; x and y broadcast. Errors as above.
[[nodiscard]] WEFT_API Tensor soft_margin_loss(const Operand& x, const Operand& y, LossOptions options = {},
                                               Location where = {});

struct MultiMarginOptions {
  /// [C], floating: a factor for each class.
  Tensor weight = {};
  LossReduction reduction = LossReduction::mean;
  /// 1 or 2, else ValueError.
  int p = 1;
  double margin = 1;
};
/// The sum over the classes j other than the target t of weight[t] max(0, margin - x[t] + x[j])^p / C (Crammer and
/// Singer 2001). x is [N, C] with integer targets [N], or [C] with a 0-d one (else ShapeError). IndexError for a target
/// outside the classes.
[[nodiscard]] WEFT_API Tensor multi_margin_loss(const Operand& x, const Operand& targets,
                                                MultiMarginOptions options = {}, Location where = {});
/// The sum of max(0, 1 - x[t] + x[j]) / C over targets t and the other classes j. Targets are integers in x's shape,
/// [N, C] or [C] (else ShapeError); those of a row end before the first -1. IndexError for one outside the classes,
/// before that or after; this waits for a device.
[[nodiscard]] WEFT_API Tensor multilabel_margin_loss(const Operand& x, const Operand& targets, LossOptions options = {},
                                                     Location where = {});
/// The mean over the last dimension of -weight (y log σ(x) + (1 - y) log σ(-x)), without overflow; all broadcast.
/// ShapeError for a 0-d x.
[[nodiscard]] WEFT_API Tensor multilabel_soft_margin_loss(const Operand& x, const Operand& y,
                                                          PlainBinaryOptions options = {}, Location where = {});

struct TripletOptions {
  LossReduction reduction = LossReduction::mean;
  double margin = 1;
  /// As for pairwise_distance.
  double p = 2;
  double eps = 1e-6;
  /// Takes the distance from positive to negative where it is below that from the anchor (Balntas et al. 2016).
  bool swap = false;
};
/// max(0, margin + d(anchor, positive) - d(anchor, negative)) with the p-distance along the last dimension (Schroff et
/// al. 2015). The three have one rank (else ShapeError) and broadcast. ValueError unless margin is above 0.
[[nodiscard]] WEFT_API Tensor triplet_margin_loss(const Operand& anchor, const Operand& positive,
                                                  const Operand& negative, TripletOptions options = {},
                                                  Location where = {});

using DistanceFunction = Callback<Tensor(const Tensor&, const Tensor&)>;
struct TripletDistanceOptions {
  LossReduction reduction = LossReduction::mean;
  double margin = 1;
  bool swap = false;
};
/// The same with a distance of your own.
[[nodiscard]] WEFT_API Tensor triplet_margin_with_distance_loss(const Operand& anchor, const Operand& positive,
                                                                const Operand& negative,
                                                                const DistanceFunction& distance,
                                                                TripletDistanceOptions options = {},
                                                                Location where = {});

struct CtcOptions {
  /// The blank class, which means no label.
  int64_t blank = 0;
  LossReduction reduction = LossReduction::mean;
  /// Losses without any alignment are 0 instead of infinite.
  bool zero_infinity = false;
};
/// Connectionist temporal classification (Graves et al. 2006): -log of the probability of all alignments of each
/// sequence of targets. log_probabilities are [T, N, C], or [T, C] for one sequence; targets are integers [N, S], or
/// 1-d with all sequences concatenated; the lengths are integers [N] (0-d for one sequence) and are read on the host.
/// The mean divides each loss by its number of targets first. 16-bit floats are computed in f32.
///
/// The gradient to the log-probabilities is minus the probability of each class at each time. An infinite loss has the
/// gradient 0. Raises ShapeError if shapes do not fit, ValueError for lengths below 0 or beyond T or S and for a blank
/// outside the classes. Raises IndexError for a target outside the classes, DTypeError unless targets and lengths are
/// integers.
[[nodiscard]] WEFT_API Tensor ctc_loss(const Operand& log_probabilities, const Operand& targets,
                                       const Operand& input_lengths, const Operand& target_lengths,
                                       CtcOptions options = {}, Location where = {});

}  // namespace weft
