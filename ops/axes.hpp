// Dimensions moved, split, added and broadcast: views of the same elements, with the errors of views in
// <weft/tensor/methods.hpp>.
#pragma once

#include <span>
#include <vector>

#include "../tensor/index.hpp"

namespace weft {

/// Dimension source[i] becomes dimension destination[i], the others keep their order. ValueError unless both name as
/// many dimensions, each once.
[[nodiscard]] WEFT_API Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination,
                                      Location where = {});
[[nodiscard]] WEFT_API Tensor moveaxis(const Tensor& x, const Dims& source, const Dims& destination,
                                       Location where = {});
/// x.transpose(dim0, dim1): a view with two dimensions exchanged. Raises IndexError for a dimension that x lacks.
[[nodiscard]] WEFT_API Tensor swapaxes(const Tensor& x, int dim0, int dim1, Location where = {});
[[nodiscard]] WEFT_API Tensor swapdims(const Tensor& x, int dim0, int dim1, Location where = {});

/// Dimension dim as several of `sizes`, one of which may be -1. ShapeError where they do not make its size, or where
/// there are none.
[[nodiscard]] WEFT_API Tensor unflatten(const Tensor& x, int dim, const Dims& sizes, Location where = {});
/// x.reshape({-1}): all elements in row-major order as one dimension. A view, or a copy if the strides need one. Takes
/// any shape and dtype.
[[nodiscard]] WEFT_API Tensor ravel(const Tensor& x, Location where = {});

/// A view with dimensions of size 1 added if x has fewer than 1, 2 or 3: [n] becomes [1, n] and [1, n, 1], [m, n]
/// becomes [m, n, 1]. Otherwise x itself. Takes any shape and dtype.
[[nodiscard]] WEFT_API Tensor atleast_1d(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor atleast_2d(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor atleast_3d(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> atleast_1d(std::span<const Tensor> tensors, Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> atleast_2d(std::span<const Tensor> tensors, Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> atleast_3d(std::span<const Tensor> tensors, Location where = {});

/// x.expand(shape), where no size is -1: a view with stride 0 in repeated dimensions. Raises ShapeError if x does not
/// broadcast to `shape`.
[[nodiscard]] WEFT_API Tensor broadcast_to(const Tensor& x, const Dims& shape, Location where = {});
/// Each tensor expanded to the shape that all of them broadcast to, or itself where it has that shape. ShapeError where
/// there is none.
[[nodiscard]] WEFT_API std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, Location where = {});

/// Which dimension of a grid the first two tensors run along: dimensions 0 and 1, or, as x and y do, 1 and 0.
enum class GridIndexing : uint8_t { ij, xy };
/// Every tensor of one dimension (or of none, which counts as one element) expanded to a grid with a dimension for
/// each. ValueError for no tensors, ShapeError for one of more dimensions, DTypeError and DeviceError where they
/// differ.
[[nodiscard]] WEFT_API std::vector<Tensor> meshgrid(std::span<const Tensor> tensors,
                                                    GridIndexing indexing = GridIndexing::ij, Location where = {});

}  // namespace weft
