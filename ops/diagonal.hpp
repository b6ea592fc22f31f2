// Matrices and their diagonals, triangles and slices. A matrix spans the last two dimensions.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// A matrix with the 1-d x on its diagonal, `diagonal` places above the main one, and 0 elsewhere; or the diagonal of
/// the matrix x as a new tensor. ShapeError for another rank.
[[nodiscard]] WEFT_API Tensor diag(const Tensor& x, int64_t diagonal = 0, Location where = {});
/// The last dimension of x as the diagonal of the result's dim1 and dim2, 0 elsewhere. ValueError where they are the
/// same, IndexError for a 0-d tensor.
[[nodiscard]] WEFT_API Tensor diag_embed(const Tensor& x, int64_t offset = 0, int dim1 = -2, int dim2 = -1,
                                         Location where = {});
/// The sum of a matrix's diagonal; i64 for integers and bool. ShapeError unless x is 2-d.
[[nodiscard]] WEFT_API Tensor trace(const Tensor& x, Location where = {});

/// x with 0 above (tril) or below (triu) the diagonal number `diagonal`, counted upwards from the main one. Raises
/// ShapeError for fewer than two dimensions.
[[nodiscard]] WEFT_API Tensor tril(const Tensor& x, int64_t diagonal = 0, Location where = {});
[[nodiscard]] WEFT_API Tensor triu(const Tensor& x, int64_t diagonal = 0, Location where = {});
WEFT_API const Tensor& tril_(const Tensor& x, int64_t diagonal = 0, Location where = {});
WEFT_API const Tensor& triu_(const Tensor& x, int64_t diagonal = 0, Location where = {});
/// Row and column indices, [2, count], of the elements that tril and triu keep, in row-major order. ValueError for a
/// negative size, DTypeError for bool.
[[nodiscard]] WEFT_API Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset = 0,
                                           TensorOptions options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset = 0,
                                           TensorOptions options = {}, Location where = {});

/// x with `source`, converted to x's dtype, replacing x.diagonal(offset, dim1, dim2), x.select(dim, index) or
/// x.slice(dim, start, stop, step). Returns new tensors. Raises ShapeError unless source has the shape of the replaced
/// slice.
[[nodiscard]] WEFT_API Tensor diagonal_scatter(const Tensor& x, const Tensor& source, int64_t offset = 0, int dim1 = 0,
                                               int dim2 = 1, Location where = {});
[[nodiscard]] WEFT_API Tensor select_scatter(const Tensor& x, const Tensor& source, int dim, int64_t index,
                                             Location where = {});
[[nodiscard]] WEFT_API Tensor slice_scatter(const Tensor& x, const Tensor& source, int dim = 0,
                                            std::optional<int64_t> start = {}, std::optional<int64_t> stop = {},
                                            int64_t step = 1, Location where = {});

}  // namespace weft
