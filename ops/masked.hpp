// Elements selected by a mask. Masks are bool (else DTypeError) and on the device of the data (else DeviceError);
// ShapeError where shapes do not broadcast.
//
// Sizes that follow from values make the host wait for a device, and are a NotImplementedError on the meta device.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// The elements of x where `mask` holds, in row-major order, as a new 1-d tensor; x and mask broadcast. The gradient is
/// 0 where the mask is false, also for NaN and infinity.
[[nodiscard]] WEFT_API Tensor masked_select(const Tensor& x, const Tensor& mask, Location where = {});
/// x with the first elements of `source`, in row-major order, in the positions where `mask` holds; x and mask
/// broadcast. A new tensor. ShapeError where source has fewer elements than the mask selects, DTypeError unless it has
/// x's dtype.
[[nodiscard]] WEFT_API Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source,
                                             Location where = {});
/// In place; returns x. Raises ShapeError unless `mask` broadcasts to x, and the errors of masked_scatter.
WEFT_API const Tensor& masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& source, Location where = {});

/// The coordinates of the non-zero elements (NaN is one), in row-major order: i64 [count, rank of x].
[[nodiscard]] WEFT_API Tensor nonzero(const Tensor& x, Location where = {});
/// Another name of nonzero.
[[nodiscard]] WEFT_API Tensor argwhere(const Tensor& x, Location where = {});
/// The number of non-zero elements (NaN is one) over `dims`, or over all where the list is empty: i64. Dimensions and
/// errors as in <weft/ops/reduce.hpp>.
[[nodiscard]] WEFT_API Tensor count_nonzero(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
                                            Location where = {});

}  // namespace weft
