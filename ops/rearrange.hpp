// The same elements in another order. IndexError for a dimension that x lacks.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// A copy of x in which the order along each of `dims` is reversed. ValueError for a dimension named twice. A view:
/// x.slice(dim, {}, {}, -1).
[[nodiscard]] WEFT_API Tensor flip(const Tensor& x, const Dims& dims, Location where = {});
/// flip along dimension 1, of a tensor of rank 2 or more (else ShapeError).
[[nodiscard]] WEFT_API Tensor fliplr(const Tensor& x, Location where = {});
/// flip along dimension 0, of a tensor of rank 1 or more (else ShapeError).
[[nodiscard]] WEFT_API Tensor flipud(const Tensor& x, Location where = {});

/// A copy of x shifted by shifts[i] along dims[i]; elements that leave at one end enter at the other. Without `dims`
/// one shift applies to x flattened. ValueError unless there are as many shifts as dims. A dimension named twice is
/// shifted twice.
[[nodiscard]] WEFT_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {}, Location where = {});

/// x turned by k quarter turns in the plane of two dimensions, from the first towards the second. A copy, with strides
/// that are turned too. ValueError unless `dims` are two different ones.
[[nodiscard]] WEFT_API Tensor rot90(const Tensor& x, int64_t k = 1, const Dims& dims = {0, 1}, Location where = {});

/// [..., channels * r * r, rows, columns] as [..., channels, rows * r, columns * r] (Shi et al. 2016), and back. New
/// tensors. ValueError unless r > 0; ShapeError where the sizes are no such multiples, and for fewer than 3 dimensions.
[[nodiscard]] WEFT_API Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor, Location where = {});
[[nodiscard]] WEFT_API Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor, Location where = {});
/// x [batch, groups * n, ...] with its channels seen as [groups, n] and transposed (Zhang et al. 2018): a new tensor.
/// ValueError unless groups > 0; ShapeError where they do not divide the channels, and for fewer than 3 dimensions.
[[nodiscard]] WEFT_API Tensor channel_shuffle(const Tensor& x, int64_t groups, Location where = {});

/// A view of the windows of `size` elements, `step` apart, along dim: size(dim) becomes the number of windows, and a
/// new last dimension of `size` holds the elements of each. Windows that overlap add in the gradient. ValueError where
/// `size` is negative or larger than size(dim), or `step` is not positive; ShapeError for a tensor of rank 8. A 0-d
/// tensor has one window: [size].
[[nodiscard]] WEFT_API Tensor unfold(const Tensor& x, int dim, int64_t size, int64_t step, Location where = {});

}  // namespace weft
