// Reading and writing single elements by an index of the data's rank, which selects along one dimension: for dim 0,
// index[i][j] selects the position [index[i][j]][j], for dim 1 [i][index[i][j]], and so on. Dtypes, devices and errors
// of indices, sources and in-place writes are those of <weft/ops/index.hpp>.
//
// ShapeError unless ranks are equal and the index is nowhere larger than the source, nor, outside dim, than x; elements
// of the source beyond it are not read. Results are new contiguous tensors.
#pragma once

#include <optional>

#include "../tensor/index.hpp"

namespace weft {

/// out[i][j] = x[index[i][j]][j] for dim 0, and so on; the result has index's shape. Raises ShapeError if index is
/// larger than x outside dim.
[[nodiscard]] WEFT_API Tensor gather(const Tensor& x, int dim, const Tensor& index, Location where = {});
/// gather where x and indices first broadcast in every dimension but dim; without a dim, both are flattened. Negative
/// indices count from the end. Raises ShapeError unless ranks are equal and the other dimensions broadcast.
[[nodiscard]] WEFT_API Tensor take_along_dim(const Tensor& x, const Tensor& indices, std::optional<int64_t> dim = {},
                                             Location where = {});

/// x with `source` at index: a tensor of index's rank, or a number or 0-d tensor for every position (a number is
/// converted to x's dtype). The last of duplicates, in row-major order, wins. The gradient of x is 0 there; elements of
/// source that were overwritten get no gradient.
[[nodiscard]] WEFT_API Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Operand& source);
WEFT_API const Tensor& scatter_(const Tensor& x, int dim, const Tensor& index, const Operand& source);
/// x with `source` added at index; duplicates add, in row-major order. Dtypes and errors as above.
[[nodiscard]] WEFT_API Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                                          Location where = {});
WEFT_API const Tensor& scatter_add_(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                                    Location where = {});

enum class ScatterReduction : uint8_t { sum, prod, mean, amax, amin };
/// x with all elements of source that `index` sends to one position combined there, together with x's value or, unless
/// `include_self`, without it; other positions keep their value. A mean of integers is rounded down. In amax and amin
/// NaN wins, and equal extremes share the gradient. The gradient of prod is exact where factors are 0, but cannot
/// itself be recorded where two factors of one position are (AutogradError).
[[nodiscard]] WEFT_API Tensor scatter_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                                             ScatterReduction reduction, bool include_self = true, Location where = {});
WEFT_API const Tensor& scatter_reduce_(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                                       ScatterReduction reduction, bool include_self = true, Location where = {});

/// scatter_reduce, where `source` may also be a number or 0-d tensor for every position.
[[nodiscard]] WEFT_API Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Operand& source,
                                      ScatterReduction reduction);
WEFT_API const Tensor& scatter_(const Tensor& x, int dim, const Tensor& index, const Operand& source,
                                ScatterReduction reduction);

}  // namespace weft
