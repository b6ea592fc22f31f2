// Draws of gamma distributions in logarithms, where small shapes give numbers that no float holds.
#pragma once

#include "../distribution.hpp"

namespace weft {

/// Logarithms of the draws that standard_gamma(shapes) gives from the same state of the generator; -inf for shape 0. In
/// shapes' dtype; no gradient.
Tensor log_standard_gamma(const Tensor& shapes, Generator* generator = nullptr, Location where = {});

}  // namespace weft
