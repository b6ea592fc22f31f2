// Gradient clipping.
#pragma once

#include <span>

#include "../tensor/index.hpp"

namespace weft::optim {

struct ClipNormOptions {
  /// The order of the norm: any number but 0 and NaN; infinity is the maximum absolute value.
  double norm_type = 2;
  /// Raise ValueError, before anything is scaled, if the norm is NaN or infinite. Waits for a device.
  bool error_if_nonfinite = false;
};
/// Scales all gradients in place so that their joint norm is at most `max_norm`. Returns the norm before scaling: 0-d
/// on the first gradient's device, float64 if any gradient is, else float32. Does not wait for a device. A parameter
/// that is given twice counts once; parameters without a gradient are skipped. A gradient with shared memory (an
/// expanded one, or one tensor as gradient of two parameters) is replaced by a copy. Squares beyond the range of the
/// dtype are computed with scaling. If an element is not finite, gradients become NaN or zero, as in PyTorch. Raises
/// ValueError for a `max_norm` that is negative or NaN and a `norm_type` of 0 or NaN.
WEFT_API Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, ClipNormOptions options = {},
                                Location where = {});

/// The joint norm of tensors, for clip_grads_with_norm_; 0 if there are none. A `norm_type` of 0 counts nonzero
/// elements. Raises ValueError for a `norm_type` of NaN, and with `error_if_nonfinite` for a norm that is not finite.
WEFT_API Tensor total_norm(std::span<const Tensor> tensors, double norm_type = 2, bool error_if_nonfinite = false,
                           Location where = {});
/// Scales all gradients in place by min(1, max_norm / total_norm), as clip_grad_norm_. Raises ValueError for a negative
/// `max_norm`, and unless `total_norm` has one floating-point element.
WEFT_API void clip_grads_with_norm_(std::span<const Tensor> parameters, double max_norm, const Tensor& total_norm,
                                    Location where = {});

/// The joint norm of the gradients of the parameters without duplicates; 0 if there are none. `norm_type` as in
/// total_norm.
WEFT_API Tensor total_grad_norm(std::span<const Tensor> parameters, double norm_type = 2, Location where = {});

/// Clamps every gradient element to ±max_value, in place; NaN stays. Parameters without a gradient are skipped, and
/// gradients with shared memory are replaced by copies. Raises ValueError for a `max_value` that is negative or NaN,
/// DTypeError for a complex gradient.
WEFT_API void clip_grad_value_(std::span<const Tensor> parameters, double max_value, Location where = {});

}  // namespace weft::optim
