// Other orders of the same elements.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// A copy of x in which the order along each of `dims` is reversed. ValueError for a dimension named twice. A view:
/// x.slice(dim, {}, {}, -1).
WEFT_API Tensor flip(const Tensor& x, const Dims& dims, Location where = {});
/// flip along dimension 1, of a tensor of rank 2 or more (else ShapeError).
WEFT_API Tensor fliplr(const Tensor& x, Location where = {});
/// flip along dimension 0, of a tensor of rank 1 or more (else ShapeError).
WEFT_API Tensor flipud(const Tensor& x, Location where = {});

/// A copy of x moved on by shifts[i] along dims[i], where what leaves at one end comes in at the other; without `dims`
/// one shift moves x seen flat. ValueError unless there are as many shifts as dims. A dimension named twice is moved
/// twice; IndexError for one that x lacks.
WEFT_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {}, Location where = {});

/// A view of the windows of `size` elements, `step` apart, along dim: size(dim) becomes the number of windows, and a
/// last dimension of `size` holds the elements of each. Windows that overlap add in the gradient. ValueError where
/// `size` is negative or larger than size(dim), or `step` is not positive. A 0-d tensor has one window: [size].
WEFT_API Tensor unfold(const Tensor& x, int dim, int64_t size, int64_t step, Location where = {});

}  // namespace weft
