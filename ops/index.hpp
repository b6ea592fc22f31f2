// Reading and writing by tensors of indices along one dimension. Indices are of any integer type (a float or bool index
// is a DTypeError) and on the device of the data (else DeviceError). An index outside [0, size) raises IndexError
// before anything is written; in take, put and index_fill, indices from -size on count from the end. A dimension that x
// lacks raises IndexError as well. Results are new contiguous tensors. Terms of one element are added in row-major
// order of the indices, and the last of several values written to one element wins, for any number of threads. A 0-d
// tensor counts as one of shape [1]. Sources have x's dtype (else DTypeError) and device: nothing is promoted. Kernels
// read i32 and i64: indices of other types are converted to i64 first, 8 bytes each.
//
// The forms with _ write into x and return it; errors of in-place writes are in <weft/tensor/methods.hpp>. A source or
// index that shares x's memory is read as it was before.
#pragma once

#include <optional>

#include "../tensor/index.hpp"

namespace weft {

/// The slices of x at `index` (1-d or 0-d) along dim: size(dim) of the result is the number of indices. ShapeError for
/// an index of higher rank, here and in the next two.
[[nodiscard]] WEFT_API Tensor index_select(const Tensor& x, int dim, const Tensor& index, Location where = {});
/// x with `alpha` times the slices of `source` added at `index` along `dim`; duplicates add. source has x's shape,
/// except that size(dim) is the number of indices (else ShapeError). DTypeError for a fractional alpha with integers.
[[nodiscard]] WEFT_API Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                                        Scalar alpha = 1, Location where = {});
WEFT_API const Tensor& index_add_(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Scalar alpha = 1,
                                  Location where = {});
/// x with the slices at `index` replaced by those of `source`, shaped as for index_add; the last of duplicates wins.
/// Any dtype. The gradient of x is 0 there; slices of source that were overwritten get no gradient. Raises ShapeError
/// for a source of another shape.
[[nodiscard]] WEFT_API Tensor index_copy(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                                         Location where = {});
WEFT_API const Tensor& index_copy_(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                                   Location where = {});
/// x with the slices at `index` filled with `value`, a number or 0-d tensor (else ShapeError), converted to x's dtype.
/// ValueError where an integer dtype does not hold the number.
[[nodiscard]] WEFT_API Tensor index_fill(const Tensor& x, int dim, const Tensor& index, const Operand& value);
WEFT_API const Tensor& index_fill_(const Tensor& x, int dim, const Tensor& index, const Operand& value);

/// x's slices at an `index` of any shape along `axis`: x.shape[:axis] + index.shape + x.shape[axis + 1:]. Without an
/// axis, elements of x flattened in row-major order, in index's shape. Duplicates add in the gradient. Raises
/// IndexError for an axis that x lacks.
[[nodiscard]] WEFT_API Tensor take(const Tensor& x, const Tensor& index, std::optional<int64_t> axis = {},
                                   Location where = {});
/// x with the elements of `source` at `index`, or with `accumulate` added there; the indices count x's elements in
/// row-major order. The last of duplicates wins, and it alone gets a gradient. ShapeError unless source and index have
/// equally many elements.
[[nodiscard]] WEFT_API Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false,
                                  Location where = {});
WEFT_API const Tensor& put_(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false,
                            Location where = {});

/// Rows of weight [count, width] at `indices` of any shape [...]: [..., width]. Raises IndexError for negative indices,
/// -100 of the losses included. The row `padding_idx` gets no gradient; as in at::embedding, a negative number means
/// none. Raises IndexError if the row does not exist, ShapeError unless weight is 2-d.
[[nodiscard]] WEFT_API Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx = -1,
                                        Location where = {});

struct EmbeddingOptions {
  /// The row without a gradient; a negative number counts from the end.
  std::optional<int64_t> padding_idx = {};
  /// The gradient of a leaf weight is stored as its used rows until grad() is called: see sparse/gradient.hpp. It is
  /// dense in passes that are recorded, captured or observed, and for leaves with gradient hooks.
  bool sparse = false;
};
[[nodiscard]] WEFT_API Tensor embedding(const Tensor& weight, const Tensor& indices, const EmbeddingOptions& options,
                                        Location where = {});

}  // namespace weft
