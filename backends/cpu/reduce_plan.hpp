// How a reduction over any dimensions with any strides is walked.
#pragma once

#include <weft/backends/cpu/lines.hpp>

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

/// What a reduction reads: elements as they are, or, for int32 alone, 1 where they are not zero.
struct ReducedElements {
  DType dtype;
  bool truth;
};

/// One reduction over numbers of one type. Partial results are kept in W: double, int64_t or int32_t.
template <class W>
struct ReduceKernel {
  /// At most so many go into one call of `columns`.
  static constexpr int64_t most_columns = 512;

  /// n elements, `stride` bytes apart.
  W (*line)(const char* x, int64_t stride, int64_t n, ReducedElements elements);
  /// The columns [0, width) of the rows [first, first + count) into result[width].
  void (*columns)(const char* x, const Walk<1>& rows, int64_t first, int64_t count, int64_t step, int64_t width,
                  ReducedElements elements, W* result);
  /// Combines `pieces` consecutive groups of `width` results in order, and stores them.
  void (*finish)(const ReducePlan& plan, W* partial, int64_t pieces, int64_t width, double divisor);
  W (*combine)(W, W);
  W identity;
};

/// Runs it over the plan; a divisor of 0 or more divides the results.
template <class W>
void reduce_by(const ReduceKernel<W>& kernel, const ReducePlan& plan, bool truth = false, double divisor = -1);

/// Mean and sum of squared deviations of `count` numbers.
struct Moments {
  double count, mean, squares;
};

/// The elements of `lines` lines of n, cut into blocks of about `size`: several lines, or a part of one.
class LineBlocks {
 public:
  struct Block {
    int64_t first_line, lines, first, size;
  };
  LineBlocks(int64_t lines, int64_t n, int64_t size)
      : lines_(lines),
        n_(n),
        part_(n > size ? size : n),
        parts_(n > size ? (n + size - 1) / size : 1),
        together_(n > size ? 1 : size / (n > 0 ? n : 1)) {}
  /// At least 1, so that a reduction over nothing has a result.
  int64_t count() const {
    if (parts_ > 1) return lines_ > 0 ? lines_ * parts_ : 1;
    return lines_ > 0 ? (lines_ + together_ - 1) / together_ : 1;
  }
  /// In one block, at most.
  int64_t elements() const { return part_ * (lines_ < together_ ? lines_ : together_); }
  Block at(int64_t i) const {
    if (lines_ == 0) return {0, 0, 0, 0};
    if (parts_ > 1) {
      const int64_t first = i % parts_ * part_;
      return {i / parts_, 1, first, n_ - first < part_ ? n_ - first : part_};
    }
    const int64_t first_line = i * together_;
    return {first_line, lines_ - first_line < together_ ? lines_ - first_line : together_, 0, n_};
  }

 private:
  int64_t lines_, n_, part_, parts_, together_;
};

/// How the rows of a reduction by columns are cut: not at all, unless the columns alone would leave threads idle.
struct ColumnPieces {
  ColumnPieces(const ReducePlan& plan, int64_t column_block, int64_t block_elements) {
    columns = plan.kept.sizes[plan.kept.rank - 1];
    const int64_t all = plan.reduced.count > 0 ? plan.reduced.count : 1;
    const int64_t wanted = block_elements / (columns < column_block ? columns : column_block);
    rows = plan.kept.count <= 16 * column_block && all >= 2 * wanted ? wanted : all;
    pieces = (all + rows - 1) / rows;
  }
  int64_t columns, rows, pieces;
};

}  // namespace weft::cpu
