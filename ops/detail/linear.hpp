// The checks of linear, for its forms with an activation. Not public.
#pragma once

#include "../../tensor/tensor.hpp"

namespace weft {

/// The errors of linear for a weight [out, in].
void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias);
/// Gives `out` the history of linear(x, weight, bias), if any of them needs a gradient.
void record_linear(const Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace weft
