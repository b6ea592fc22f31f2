// Where a matrix in compressed rows has elements. Not public.
#pragma once

#include "common.hpp"

namespace weft {

/// Integers as i64, contiguous. DTypeError unless they are integers, ShapeError unless they have `rank` dimensions.
Tensor checked_integers(const Tensor& t, const char* what, int rank);

/// Row starts and columns that fit: see ops/sparse.hpp for the errors.
struct CsrPattern {
  Tensor starts, columns;
  int64_t rows, count;  ///< of the matrix: rows and columns

  /// Of n elements in `columns_count` columns.
  CsrPattern(const Tensor& row_starts, const Tensor& columns, int64_t n, int64_t columns_count);
};

}  // namespace weft
