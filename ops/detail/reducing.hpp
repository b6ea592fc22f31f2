// Helpers of reductions and their gradients. Not public.
#pragma once

#include "common.hpp"

namespace weft {

struct Reduced {
  Dims kept;          ///< x's sizes with 1 for each reduced dimension
  Dims shape;         ///< the result's: `kept`, or without the reduced dimensions
  int64_t count = 1;  ///< elements reduced into each result
};
/// IndexError for a dimension x lacks, ValueError for one named twice. Empty `dims` are all.
Reduced reduced(const Tensor& x, const Dims& dims, bool keepdim);
/// The dimensions of size 1 in `kept`: those that were reduced, and others where reducing changes nothing.
Dims reduced_dims(const Dims& kept);

/// A contiguous view with other sizes of the same element count.
View reshaped_view(const View& contiguous, std::span<const int64_t> sizes);
/// A fresh unrecorded result under other sizes; not a view to autograd.
Tensor with_shape(const Tensor& contiguous, std::span<const int64_t> sizes);

/// A result or its gradient with the reduced dimensions put back.
inline Tensor restore_dims(const Tensor& t, const Dims& kept) { return t.dim() == kept.size() ? t : t.reshape(kept); }

/// Whether each sum of squares neither overflowed nor is made of terms that lost digits below the smallest normal
/// number. False on a device, which is not waited for, and in a recorded step, which must not depend on values.
bool has_digits(const Tensor& sums);

/// A power of two near each value that is not negative, so that a division by it rounds nothing.
Tensor power_of_two_near(const Tensor& x);

Tensor run_reduce(Reduction reduction, const Tensor& x, const Reduced& to, DType dtype);

/// x[..., index, ...] where `index` (i64) has x's sizes but 1 along `dim`; the result has `shape`. Recorded as `op`.
Tensor pick(const Tensor& x, int dim, const Tensor& index, const Dims& shape);

/// The dtype of sums and products of x: `dtype` if given, x's own for floats, complex numbers and u64, i64 for other
/// integers and bool. DTypeError where a `dtype` does not hold x's imaginary parts.
inline DType sum_type(const Tensor& x, std::optional<DType> dtype = {}) {
  if (WEFT_UNLIKELY(dtype && is_complex(x.dtype()) && !is_complex(*dtype))) {
    raise<DTypeError>(
        {.problem = fmt::format("{} does not hold the imaginary parts of {}", name(*dtype), name(x.dtype())),
         .remedy = "take real(x) first"});
  }
  return dtype.value_or(is_inexact(x.dtype()) || x.dtype() == DType::u64 ? x.dtype() : DType::i64);
}

/// Widens 16-bit floats to f32; other tensors stay.
inline Tensor to_compute_type(const Tensor& x) { return x.to(compute_type(x.dtype())); }

}  // namespace weft
