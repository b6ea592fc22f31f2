// Order: sorted lines, the largest and smallest elements, medians and quantiles.
//
// NaN counts as largest: it is last in ascending order and first in descending order. Every order is stable. Indices
// are i64. Results are new contiguous tensors; a 0-d tensor counts as one of shape [1]. IndexError for a dimension that
// x lacks. Values have a gradient, which goes to the elements that they came from; indices have none.
#pragma once

#include <optional>

#include "reduce.hpp"

namespace weft {

/// The elements of each line along `dim` in ascending or descending order, and the index of each in x. Errors as above.
[[nodiscard]] WEFT_API ValuesAndIndices sort(const Tensor& x, int dim = -1, bool descending = false,
                                             Location where = {});
/// The indices of sort. Errors as above.
[[nodiscard]] WEFT_API Tensor argsort(const Tensor& x, int dim = -1, bool descending = false, Location where = {});
/// The values of sort along dimension 0. Takes any shape.
[[nodiscard]] WEFT_API Tensor msort(const Tensor& x, Location where = {});
/// The k largest elements of each line along `dim` in descending order, or its k smallest in ascending order, and their
/// indices; of equal elements the first are taken. ValueError unless 0 <= k <= size(dim).
[[nodiscard]] WEFT_API ValuesAndIndices topk(const Tensor& x, int64_t k, int dim = -1, bool largest = true,
                                             Location where = {});
/// The k-th smallest element of each line, counted from 1, and its index. ValueError unless 1 <= k <= size(dim).
[[nodiscard]] WEFT_API ValuesAndIndices kthvalue(const Tensor& x, int64_t k, int dim = -1, bool keepdim = false,
                                                 Location where = {});
/// The most frequent element of each line along `dim`, the smallest of several, and its last index. NaNs are equal
/// here. ValueError for a line without elements.
[[nodiscard]] WEFT_API ValuesAndIndices mode(const Tensor& x, int dim = -1, bool keepdim = false, Location where = {});

/// The lower median of all elements, 0-d; NaN where one is, or where there are none. Equal elements share the gradient.
/// ValueError for no integers.
[[nodiscard]] WEFT_API Tensor median(const Tensor& x, Location where = {});
/// The lower median of each line along `dim`, or its first NaN, and its index; of equal elements the one that a stable
/// order puts in the middle. ValueError for a line without elements.
[[nodiscard]] WEFT_API ValuesAndIndices median(const Tensor& x, int dim, bool keepdim = false, Location where = {});
/// median of the elements that are not NaN; NaN if all are. Errors as median.
[[nodiscard]] WEFT_API Tensor nanmedian(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API ValuesAndIndices nanmedian(const Tensor& x, int dim, bool keepdim = false, Location where = {});

/// The value of a quantile between two elements: linear interpolation, the lower, the higher, the nearest (ties go to
/// the even rank) or the mean.
enum class QuantileInterpolation : uint8_t { linear, lower, higher, midpoint, nearest };
/// The elements of rank q (n - 1) in each line along `dim`, or among all; `q`, a number or a 0-d or 1-d tensor of x's
/// dtype, is in [0, 1] (ValueError, ShapeError, DTypeError). A 1-d q gives the result a first dimension of its size. A
/// line with NaN gives NaN. 16-bit floats are computed in f32. Differentiable in q too. DTypeError unless x is
/// floating, ValueError for a line without elements.
[[nodiscard]] WEFT_API Tensor quantile(const Tensor& x, const Operand& q, std::optional<int64_t> dim = {},
                                       bool keepdim = false,
                                       QuantileInterpolation interpolation = QuantileInterpolation::linear);
/// quantile of the elements that are not NaN; NaN if all are. Errors as quantile.
[[nodiscard]] WEFT_API Tensor nanquantile(const Tensor& x, const Operand& q, std::optional<int64_t> dim = {},
                                          bool keepdim = false,
                                          QuantileInterpolation interpolation = QuantileInterpolation::linear);

}  // namespace weft
