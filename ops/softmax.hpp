// Softmax along one dimension.
#pragma once

#include <optional>

#include "../tensor/index.hpp"

namespace weft {

/// exp(x) / sum(exp(x)) along `dim`, without overflow; a new tensor of x's shape. With `dtype` x is converted first.
/// 16-bit floats are computed in f32. DTypeError for integers without `dtype`, IndexError for a dimension that x lacks.
[[nodiscard]] WEFT_API Tensor softmax(const Tensor& x, int dim, std::optional<DType> dtype = {}, Location where = {});
/// x - log(sum(exp(x))) along `dim`; shapes, dtypes and errors as softmax.
[[nodiscard]] WEFT_API Tensor log_softmax(const Tensor& x, int dim, std::optional<DType> dtype = {},
                                          Location where = {});
/// softmax(-x): shapes, dtypes and errors as softmax.
[[nodiscard]] WEFT_API Tensor softmin(const Tensor& x, int dim, std::optional<DType> dtype = {}, Location where = {});

}  // namespace weft
