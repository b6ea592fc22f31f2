// Gradients kept within bounds before a step.
#pragma once

#include <span>

#include "../tensor/index.hpp"

namespace weft::optim {

struct ClipNormOptions {
  /// The order of the norm: above 0, infinity for the largest absolute value.
  double norm_type = 2;
  /// ValueError, before anything is scaled, where the norm is NaN or infinite. Waits for a device.
  bool error_if_nonfinite = false;
};
/// Scales all gradients in place so that their joint norm is at most `max_norm`, and returns the norm they had (0-d, in
/// float32 or float64, on the first one's device; no wait for a device). A norm that is not finite makes them NaN or
/// zero, as in PyTorch. Parameters without a gradient are passed over. ValueError for a negative `max_norm` and a
/// `norm_type` of 0 or less.
WEFT_API Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, ClipNormOptions options = {},
                                Location where = {});

/// The joint norm of all gradients, as clip_grad_norm_ returns it; 0 where there are none. ValueError for a `norm_type`
/// of 0 or less.
WEFT_API Tensor total_grad_norm(std::span<const Tensor> parameters, double norm_type = 2, Location where = {});

/// Limits every element of the gradients to ±max_value, in place; NaN stays. Parameters without a gradient are passed
/// over. ValueError for a `max_value` that is negative or NaN.
WEFT_API void clip_grad_value_(std::span<const Tensor> parameters, double max_value, Location where = {});

}  // namespace weft::optim
