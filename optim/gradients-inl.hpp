// The gradients of a list of parameters as one vector. Not public.
#pragma once

#include <span>

#include "../tensor/tensor.hpp"

namespace weft::optim::detail {

/// The 2-norm of the gradients of distinct parameters, also beyond the range of float32. Waits for a device.
double gradient_length(std::span<const Tensor> parameters);

/// Multiplies each gradient once, in place; one whose elements share memory becomes a tensor of its own before.
void scale_gradients(std::span<const Tensor> parameters, double factor);

}  // namespace weft::optim::detail
