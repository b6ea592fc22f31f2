// Reductions over all or some dimensions.
//
// `dims` may count from the end; an empty list means every dimension. IndexError for a dimension that x lacks,
// ValueError for one named twice. Reduced dimensions vanish or, with `keepdim`, stay with size 1. Results are new
// contiguous tensors. 0-d tensors count as having one dimension of size 1. Over no elements: sum 0, prod 1, any false,
// all true, mean NaN; extremes raise ValueError.
#pragma once

#include <concepts>
#include <optional>

#include "../tensor/index.hpp"

namespace weft {

/// Sum of all elements, 0-d. u64 sums in u64, other integers and bool in i64; 16-bit floats accumulate in f32.
[[nodiscard]] WEFT_API Tensor sum(const Tensor& x, Location where = {});
/// Sum over `dims`, with x first converted to `dtype` where given.
[[nodiscard]] WEFT_API Tensor sum(const Tensor& x, const Dims& dims, bool keepdim = false,
                                  std::optional<DType> dtype = {}, Location where = {});

/// Arithmetic mean of all elements, 0-d, in `dtype` or x's own. DTypeError unless that is floating.
[[nodiscard]] WEFT_API Tensor mean(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor mean(const Tensor& x, const Dims& dims, bool keepdim = false,
                                   std::optional<DType> dtype = {}, Location where = {});

/// Product of all elements, 0-d; dtypes as `sum`. The gradient is exact where elements are zero.
[[nodiscard]] WEFT_API Tensor prod(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor prod(const Tensor& x, const Dims& dims, bool keepdim = false,
                                   std::optional<DType> dtype = {}, Location where = {});

/// The largest (smallest) element, 0-d; NaN wins. Equal extremes share the gradient. Raises ValueError for no elements.
[[nodiscard]] WEFT_API Tensor max(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor min(const Tensor& x, Location where = {});
/// Elements and their indices along a dimension (i64): `auto [values, indices] = x.max(1)`.
struct ValuesAndIndices {
  Tensor values, indices;
};
/// The largest (smallest) element along one dimension and its first index; the gradient goes to that element alone.
/// Raises ValueError if the dimension has size 0.
[[nodiscard]] WEFT_API ValuesAndIndices max(const Tensor& x, int dim, bool keepdim = false, Location where = {});
[[nodiscard]] WEFT_API ValuesAndIndices min(const Tensor& x, int dim, bool keepdim = false, Location where = {});
/// Elementwise: maximum and minimum. Dtypes promote, and shapes broadcast (else ShapeError).
[[nodiscard]] WEFT_API Tensor max(const Tensor& a, const Tensor& b, Location where = {});
[[nodiscard]] WEFT_API Tensor min(const Tensor& a, const Tensor& b, Location where = {});
/// The largest (smallest) over several dimensions; NaN wins, equal extremes share the gradient.
[[nodiscard]] WEFT_API Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false, Location where = {});
[[nodiscard]] WEFT_API Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false, Location where = {});
/// Index (i64) of the first largest (smallest) element along `dim`, or in the flattened tensor; NaN wins. No gradient.
/// Raises IndexError for a dimension that x lacks, ValueError for no elements.
[[nodiscard]] WEFT_API Tensor argmax(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false,
                                     Location where = {});
[[nodiscard]] WEFT_API Tensor argmin(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false,
                                     Location where = {});

/// Whether any or all elements are non-zero (NaN is); bool, no gradient.
[[nodiscard]] WEFT_API Tensor any(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor any(const Tensor& x, const Dims& dims, bool keepdim = false, Location where = {});
[[nodiscard]] WEFT_API Tensor all(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor all(const Tensor& x, const Dims& dims, bool keepdim = false, Location where = {});

/// Variance: sum of squared deviations from the mean over max(0, n - correction), in two passes or by Welford 1962.
/// Deviations of f32 are squared in f32: beyond 1e19 the result is infinite, below 1e-23 it is 0, that of std too.
/// DTypeError unless x is floating.
[[nodiscard]] WEFT_API Tensor var(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor var(const Tensor& x, const Dims& dims, double correction = 1, bool keepdim = false,
                                  Location where = {});
/// Standard deviation, the root of `var`. Where it is 0 so is the gradient. Beside `using namespace weft` write
/// `x.std()` or `weft::std(x)`: `std` alone names the standard library. Raises DTypeError unless x is floating.
[[nodiscard]] WEFT_API Tensor std(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor std(const Tensor& x, const Dims& dims, double correction = 1, bool keepdim = false,
                                  Location where = {});

/// log(sum(exp(x))) without overflow; -inf over no elements or where all are -inf. Integers are computed in f32.
[[nodiscard]] WEFT_API Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim = false, Location where = {});

/// sum(|x|^order)^(1/order) over `dims`; the largest or smallest magnitude where `order` is infinite or -infinite, the
/// number of elements that are not 0 where it is 0. With `dtype` x is converted first; 16-bit floats are computed in
/// f32. The gradient at 0 is 0. DTypeError for integers without a floating `dtype`, ValueError for an order of NaN.
[[nodiscard]] WEFT_API Tensor vector_norm(const Tensor& x, double order = 2, const Dims& dims = {},
                                          bool keepdim = false, std::optional<DType> dtype = {}, Location where = {});
/// The Euclidean norm. A list names dimensions, a number the order: norm(x, {1}) is over dimension 1, norm(x, 1) the
/// sum of all magnitudes. Raises DTypeError for integers.
[[nodiscard]] WEFT_API Tensor norm(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor norm(const Tensor& x, const Dims& dims, Location where = {});
template <std::same_as<bool> B>
Tensor norm(const Tensor& x, const Dims& dims, B keepdim, Location where = {}) {
  return vector_norm(x, 2, dims, keepdim, {}, where);
}
template <Arithmetic P>
Tensor norm(const Tensor& x, P p, const Dims& dims = {}, bool keepdim = false, std::optional<DType> dtype = {},
            Location where = {}) {
  return vector_norm(x, static_cast<double>(p), dims, keepdim, dtype, where);
}
template <Arithmetic P, std::same_as<bool> B>
Tensor norm(const Tensor& x, P dim, B keepdim, Location where = {}) = delete;  // norm(x, {dim}, keepdim)

}  // namespace weft
