// Running sums, products and extremes.
#pragma once

#include <optional>

#include "reduce.hpp"

namespace weft {

/// Prefix sums along `dim`, or of the flattened tensor where `dim` is left out; a new tensor of x's shape (or 1-d).
/// `exclusive` leaves the element itself out (the first sum is 0, so infinities never cancel); `reverse` sums from the
/// end. Integers other than u64 and bool give i64 unless `dtype` is given, to which x is converted first; f16 and bf16
/// accumulate in f32 and round each prefix once. NaN and infinities reach every later prefix. A 0-d tensor has one
/// dimension of size 1. Gradient: cumsum(g, dim, exclusive, !reverse). IndexError for a dimension that x lacks.
[[nodiscard]] WEFT_API Tensor cumsum(const Tensor& x, std::optional<int64_t> dim, bool exclusive = false,
                                     bool reverse = false, std::optional<DType> dtype = {}, Location where = {});
/// In place. DTypeError for bool and for integers other than i64 and u64: their sums have another dtype. Also the
/// errors of in-place writes in <weft/tensor/methods.hpp>.
WEFT_API const Tensor& cumsum_(const Tensor& x, int64_t dim, bool exclusive = false, bool reverse = false,
                               Location where = {});

/// Prefix products along `dim`; dtypes as cumsum, 16-bit floats multiply in f32 and round each prefix once, f32 on the
/// CPU in double. The gradient is exact where elements are 0. Errors as cumsum.
[[nodiscard]] WEFT_API Tensor cumprod(const Tensor& x, int dim, std::optional<DType> dtype = {}, Location where = {});
/// log of the prefix sums of exp(x) along `dim`, without overflow. 16-bit floats are computed in f32. DTypeError unless
/// x is floating.
[[nodiscard]] WEFT_API Tensor logcumsumexp(const Tensor& x, int dim, Location where = {});
/// The largest (smallest) element up to each along `dim`, and the index of the last such one; from a NaN on it is NaN.
/// The gradient goes to that element alone. Errors as cumsum.
[[nodiscard]] WEFT_API ValuesAndIndices cummax(const Tensor& x, int dim, Location where = {});
[[nodiscard]] WEFT_API ValuesAndIndices cummin(const Tensor& x, int dim, Location where = {});

}  // namespace weft
