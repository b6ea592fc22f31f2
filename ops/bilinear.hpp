// A product of two inputs.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// x1ᵀ · weight[k] · x2 + bias[k] for each k: x1 [..., in1], x2 [..., in2] with the same leading sizes, weight [out,
/// in1, in2], bias [out]; the result is [..., out]. ShapeError for sizes that do not fit, DTypeError unless all is
/// floating.
[[nodiscard]] WEFT_API Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight,
                                       const Tensor& bias = {}, Location where = {});

}  // namespace weft
