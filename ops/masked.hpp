// What a mask selects. Masks are bool (DTypeError otherwise) and on the device of the data.
//
// Sizes that follow from values make the host wait for a device, and are a NotImplementedError on the meta device.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// The elements of x where `mask` holds, in row-major order, as a new 1-d tensor; x and mask broadcast. The gradient is
/// 0 where the mask does not hold, whatever stands there.
WEFT_API Tensor masked_select(const Tensor& x, const Tensor& mask, Location where = {});
/// x with the first elements of `source`, in row-major order, at the places where `mask` holds, one after the other; x
/// and mask broadcast. ShapeError where source has fewer elements than the mask places, DTypeError unless it has x's
/// dtype.
WEFT_API Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, Location where = {});
/// In place; `mask` must broadcast to x. Returns x.
WEFT_API const Tensor& masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& source, Location where = {});

/// The coordinates of the elements that are not 0 (NaN is not), in row-major order: i64 [count, rank of x].
WEFT_API Tensor nonzero(const Tensor& x, Location where = {});
/// As nonzero.
WEFT_API Tensor argwhere(const Tensor& x, Location where = {});
/// How many elements are not 0 (NaN is not), over `dims` or, where the list is empty, all: i64.
WEFT_API Tensor count_nonzero(const Tensor& x, const Dims& dims = {}, bool keepdim = false, Location where = {});

}  // namespace weft
