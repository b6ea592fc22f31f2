// Products of sparse matrices in compressed rows (CSR): of row r are the elements row_starts[r] to row_starts[r + 1] of
// `columns` and `values`. sparse/ has the matrices themselves.
//
// row_starts [rows + 1] and columns [n] are integers, and row_starts ascend from 0 to n; columns of a row may be
// unordered and repeated. Tensors share one device, and values and dense operands one dtype; 16-bit floats are computed
// in f32 and rounded once. Sums have a fixed order for any number of threads. Results are new contiguous tensors,
// differentiable to any order; backward sorts columns, on the host. ShapeError where sizes do not fit, DTypeError where
// dtypes do not, ValueError for invalid row_starts, IndexError for a column outside of the dense operand; on a device
// the host waits for row_starts and columns.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// The sparse matrix [rows, k] of `values` [n] times dense [k, m] or [k]: [rows, m] or [rows]. Errors as above.
[[nodiscard]] WEFT_API Tensor csr_matmul(const Tensor& row_starts, const Tensor& columns, const Tensor& values,
                                         const Tensor& dense, Location where = {});

/// The elements of the product of a [rows, m] and the transpose of b [k, m] that a sparse matrix stores: [n]. Each, in
/// row r and column c, is the sum of a[r] * b[c]. Errors as above.
[[nodiscard]] WEFT_API Tensor csr_sampled_product(const Tensor& row_starts, const Tensor& columns, const Tensor& a,
                                                  const Tensor& b, Location where = {});

}  // namespace weft
