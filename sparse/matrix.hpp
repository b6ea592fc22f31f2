// Sparse tensors as structs of dense tensors; `values` takes part in autograd like any tensor.
//
//   const sparse::Csr a = sparse::to_csr(dense);
//   sparse::matmul(a, x).sum().backward();   // x.grad(), and a.values.grad() where that is a leaf
//
// Coo is a list of indices with a value each, Csr a matrix in compressed rows. Functions give new values; their tensors
// may share memory with those that were given. All are differentiable in `values` to any order, unless said. Work on
// indices is done on the host, which waits for a device; a step with it cannot be captured.
#pragma once

#include "../tensor/index.hpp"

namespace weft::sparse {

/// Elements, or blocks of them, at indices; others are zero, and where indices repeat the sum counts.
struct Coo {
  Tensor indices;  ///< i64 [sparse dimensions, n]
  Tensor values;   ///< [n, sizes of the dense dimensions…]
  Dims shape;      ///< sparse dimensions, then dense ones
  /// Indices ascend in row-major order, and none repeats.
  bool is_coalesced = false;

  int64_t nnz() const { return values.size(0); }
  int sparse_dims() const { return static_cast<int>(indices.size(0)); }
  int dense_dims() const { return values.dim() - 1; }
};

/// A matrix; its row r has the elements row_starts[r] to row_starts[r + 1] of columns and values.
struct Csr {
  Tensor row_starts;  ///< i64 [rows + 1]
  Tensor columns;     ///< i64 [n]; they may be in any order in a row, and repeat
  Tensor values;      ///< [n]
  Dims shape;         ///< [rows, columns]

  int64_t nnz() const { return values.size(0); }
};

/// Constructs it from its tensors, which are shared if they are i64 and contiguous. Raises DTypeError unless indices
/// are integers, ShapeError if sizes do not fit or the sparse dimensions have more than 2^63 - 1 positions. Raises
/// DeviceError for tensors on several devices, IndexError for an index outside of its dimension; negative indices are
/// not allowed.
WEFT_API Coo coo(const Tensor& indices, const Tensor& values, const Dims& shape, Location where = {});
/// Likewise; also ValueError unless row_starts ascend from 0 to n.
WEFT_API Csr csr(const Tensor& row_starts, const Tensor& columns, const Tensor& values, const Dims& shape,
                 Location where = {});

/// Sums repeated indices in the order of the list, and sorts them in row-major order; returns a coalesced tensor
/// unchanged. Zero sums are kept. Raises DTypeError for bool.
WEFT_API Coo coalesce(const Coo& a, Location where = {});

/// The nonzero entries (NaN is nonzero) along the first `sparse_dims` dimensions, or all if it is negative: elements,
/// or blocks of the remaining dimensions. Coalesced. Raises ShapeError for a 0-d tensor, ValueError if it has fewer
/// dimensions.
WEFT_API Coo to_coo(const Tensor& dense, int sparse_dims = -1, Location where = {});
WEFT_API Coo to_coo(const Csr& a, Location where = {});
/// Columns ascend in each row, and none repeats. ShapeError unless it is a matrix of two sparse dimensions.
WEFT_API Csr to_csr(const Tensor& dense, Location where = {});
WEFT_API Csr to_csr(const Coo& a, Location where = {});
WEFT_API Tensor to_dense(const Coo& a, Location where = {});
WEFT_API Tensor to_dense(const Csr& a, Location where = {});

/// Rows and columns exchanged. ShapeError unless there are two sparse dimensions; dense ones stay where they are.
WEFT_API Coo transpose(const Coo& a, Location where = {});
WEFT_API Csr transpose(const Csr& a, Location where = {});

/// The product with dense [k, m] or [k]: [rows, m] or [rows], differentiable in both; weft::csr_matmul says how. A Coo
/// is sorted by rows in every call: a matrix that is used again is better a Csr. ShapeError where sizes do not fit, or
/// there are dense dimensions; DTypeError unless both are of one dtype.
WEFT_API Tensor matmul(const Coo& a, const Tensor& dense, Location where = {});
WEFT_API Tensor matmul(const Csr& a, const Tensor& dense, Location where = {});

}  // namespace weft::sparse
