// Normalisation of channels: over the batch, over groups of channels, or of each example.
#pragma once

#include <optional>

#include "../tensor/index.hpp"

namespace weft {

struct BatchNormOptions {
  /// By the statistics of x, which also move the running ones; else by the running ones alone.
  bool training = false;
  /// The share of this batch in the running statistics.
  double momentum = 0.1;
  double eps = 1e-5;
};

/// (x - mean) / sqrt(var + eps) * weight + bias for each channel of x [N, C, ...], over all other dimensions (Ioffe and
/// Szegedy 2015). In training, mean and var (biased) are those of x, and running_mean and running_var, if defined, move
/// towards x's mean and unbiased variance by `momentum`. Otherwise running_mean and running_var normalise x. All are
/// [C] or undefined; the result is new, with x's shape and dtype. 16-bit floats are computed in f32 and rounded once.
/// Differentiable to any order in x, weight and bias. ShapeError where shapes do not fit, DTypeError unless all are
/// floating, ValueError for training on one value for each channel, and for neither training nor running statistics.
[[nodiscard]] WEFT_API Tensor batch_norm(const Tensor& x, const Tensor& running_mean = {},
                                         const Tensor& running_var = {}, const Tensor& weight = {},
                                         const Tensor& bias = {}, BatchNormOptions options = {}, Location where = {});

/// The same over each group of C / groups channels of one example, x [N, C, ...] (Wu and He 2018); weight and bias are
/// [C] or undefined. ShapeError unless groups divides C.
[[nodiscard]] WEFT_API Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                                         const Tensor& bias = {}, double eps = 1e-5, Location where = {});

struct InstanceNormOptions {
  /// By the statistics of x; else by the running ones.
  bool use_input_stats = true;
  double momentum = 0.1;
  double eps = 1e-5;
};
/// The same over each channel of one example (Ulyanov et al. 2016). Running statistics, where defined, move to the
/// means over the batch of the examples' own. Arguments and errors as batch_norm.
[[nodiscard]] WEFT_API Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {},
                                            const Tensor& running_var = {}, const Tensor& weight = {},
                                            const Tensor& bias = {}, InstanceNormOptions options = {},
                                            Location where = {});

}  // namespace weft
