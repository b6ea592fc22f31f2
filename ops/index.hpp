// Reading and adding by tensors of indices. Indices are of any integer type (a float or bool index is a DTypeError) and
// on the device of the data; negative ones count from the end, and one outside [-size, size) is an IndexError that is
// raised before anything is written. Results are new contiguous tensors. Terms that meet in one place are added in
// row-major order of the indices, whatever the number of threads.
#pragma once

#include <weft/tensor/tensor.hpp>

namespace weft {

/// The slices of x at `index` (1-d or 0-d) along dim: size(dim) of the result is the number of indices.
WEFT_API Tensor index_select(const Tensor& x, int dim, const Tensor& index, Location where = {});
/// x with `source` slices added at `index` along `dim`; duplicates add. source has x's shape but for size(dim), which
/// is the number of indices, and x's dtype.
WEFT_API Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where = {});
/// In place; returns x.
WEFT_API const Tensor& index_add_(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                                  Location where = {});

/// out[i][j] = x[index[i][j]][j] for dim 0, x[i][index[i][j]] for dim 1, and so on. index has x's rank and outside dim
/// is nowhere larger; the result has index's shape.
WEFT_API Tensor gather(const Tensor& x, int dim, const Tensor& index, Location where = {});
/// x with source[i][j] added at [index[i][j]][j] for dim 0, and so on; duplicates add. index has the rank of x and
/// source and is nowhere larger than source, nor than x outside dim.
WEFT_API Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where = {});
/// In place; returns x.
WEFT_API const Tensor& scatter_add_(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                                    Location where = {});
/// gather where x and indices first broadcast in every dimension but dim.
WEFT_API Tensor take_along_dim(const Tensor& x, const Tensor& indices, int dim, Location where = {});

/// Rows of weight [count, width] at `indices` of any shape: [..., width].
WEFT_API Tensor embedding(const Tensor& weight, const Tensor& indices, Location where = {});
/// i64 [..., classes]: 1 at each index, else 0.
WEFT_API Tensor one_hot(const Tensor& indices, int64_t classes, Location where = {});

}  // namespace weft
