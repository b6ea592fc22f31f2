// Differences of neighbours, and integrals by the trapezoidal rule. IndexError for a dimension that x lacks. Results
// are new contiguous tensors.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// Each element less the one before it along `dim`, n times over: size(dim) loses n, down to 0. `prepend` and `append`,
/// of x's rank, are joined to x first, as by cat. Of bool whether neighbours differ. ShapeError for a 0-d x and for
/// parts of another rank, ValueError for a negative n.
[[nodiscard]] WEFT_API Tensor diff(const Tensor& x, int64_t n = 1, int dim = -1, const Tensor& prepend = {},
                                   const Tensor& append = {}, Location where = {});

/// The integral of samples y that are `dx` apart along `dim`: the sum of (y[i] + y[i + 1]) / 2 * dx. Integers are
/// summed in i64 and give the default dtype; no samples give 0 in y's dtype. DTypeError for bool, ShapeError for a 0-d
/// y.
[[nodiscard]] WEFT_API Tensor trapezoid(const Tensor& y, double dx = 1, int dim = -1, Location where = {});
/// The same for samples at the points `x`: 1-d with one for each sample (else ShapeError), or of a shape that
/// broadcasts with y's after dim is one shorter in both.
[[nodiscard]] WEFT_API Tensor trapezoid(const Tensor& y, const Tensor& x, int dim = -1, Location where = {});
/// The integrals from the first sample to each later one: size(dim) is one smaller. Dtypes and errors as trapezoid.
[[nodiscard]] WEFT_API Tensor cumulative_trapezoid(const Tensor& y, double dx = 1, int dim = -1, Location where = {});
[[nodiscard]] WEFT_API Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int dim = -1, Location where = {});

}  // namespace weft
