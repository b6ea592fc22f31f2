// Treats the gradients of a list of parameters as one vector. Not public.
#pragma once

#include <span>

#include "../tensor/tensor.hpp"

namespace weft::optim::detail {

/// The 2-norm of the gradients of the parameters without duplicates, also beyond the range of float32. Waits for a
/// device.
double gradient_length(std::span<const Tensor> parameters);

/// Scales each gradient once, in place. A gradient with shared memory is first replaced by a copy.
void scale_gradients(std::span<const Tensor> parameters, double factor);

}  // namespace weft::optim::detail
