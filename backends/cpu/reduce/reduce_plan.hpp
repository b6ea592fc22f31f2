// Plans of reductions over any dimensions, with any strides.
#pragma once

#include "../lines.hpp"

namespace weft::cpu {

struct ReducePlan {
  ReducePlan(const View& out, const View& in);

  char* out;
  const char* data;
  DType out_dtype, dtype;
  Walk<2> kept;     ///< out's and in's strides
  Walk<1> reduced;  ///< in's strides
  bool by_columns;  ///< the innermost dimension is a kept one

  /// How many rows of a dense matrix of few columns to see as one; 1 for other layouts.
  int64_t rows_in_one() const {
    const bool dense = kept.rank == 1 && reduced.rank == 1 && kept.strides[1][0] == itemsize(dtype) &&
                       reduced.strides[0][0] == kept.sizes[0] * itemsize(dtype);
    const int64_t rows = dense && kept.sizes[0] <= 64 ? 256 / kept.sizes[0] : 1;
    return reduced.count >= 8 * rows ? rows : 1;
  }
};

/// The input transform of a reduction: elements unchanged or, for int32 only, 1 for nonzero elements.
struct ReducedElements {
  DType dtype;
  bool truth;
};

/// One reduction. Partial results are kept in W: double, int64_t, int32_t or Moments.
template <class W>
struct ReduceKernel {
  /// Combines into[i] with the n elements, `stride` bytes apart, of line i of `count`; lines are `line_step` bytes
  /// apart.
  void (*lines)(W* into, int64_t count, const char* x, int64_t line_step, int64_t stride, int64_t n,
                ReducedElements elements);
  /// The columns [0, width) of the rows [first, first + count) into result[width].
  void (*columns)(const char* x, const Walk<1>& rows, int64_t first, int64_t count, int64_t step, int64_t width,
                  ReducedElements elements, W* result);
  /// Combines `pieces` consecutive groups of `width` results in order, and stores them.
  void (*finish)(const ReducePlan& plan, W* partial, int64_t pieces, int64_t width, double divisor);
  W identity;
  /// The greatest width of one call of `columns`.
  int64_t most_columns;
  /// Whether several rows of few columns may be seen as one.
  bool merges_rows;
};

/// Runs a reduction over the plan; results are divided by `divisor` unless that is negative.
template <class W>
void reduce_by(const ReduceKernel<W>& kernel, const ReducePlan& plan, bool truth = false, double divisor = -1);

/// Mean and sum of squared deviations of `count` numbers.
struct Moments {
  double count, mean, squares;
};

}  // namespace weft::cpu
