// Matrix products: a group of 16 x 16 work-items computes T x T outputs each.
#pragma once

#include "tile.hpp"

namespace weft::portable {

template <class C, int T>
WEFT_DEVICE void matmul_tile(Out out, In a, In b, In bias, const Matmul& plan, WEFT_LOCAL C* left,
                             WEFT_LOCAL C* right) {
  enum { edge = tile_edge * T };
  int64_t offset[4];
  offsets_at(plan.batch, weft_group(2), offset);
  const int x = weft_local(0), y = weft_local(1);
  const int64_t first_row = weft_group(1) * edge, first_column = weft_group(0) * edge;
  const StridedRows<C> rows = {a + offset[1], plan.m, plan.row[1], plan.k, plan.column[1], plan.dtype[1]};
  const StridedRows<C> columns = {b + offset[2], plan.n, plan.column[2], plan.k, plan.row[2], plan.dtype[2]};
  C sum[T][T];
  multiply_rows<C, T>(sum, rows, columns, first_row, first_column, 0, plan.k, left, right);
  for (int i = 0; i < T; ++i) {
    for (int j = 0; j < T; ++j) {
      const int64_t row = first_row + i * tile_edge + y, column = first_column + j * tile_edge + x;
      if (row >= plan.m || column >= plan.n) continue;
      C value = sum[i][j];
      if (plan.has_bias) {
        const In at = bias + offset[3] + row * plan.row[3] + column * plan.column[3];
        value = Plus::combine(value, Memory<C>::load(at, plan.dtype[3]));
      }
      Memory<C>::store(out + offset[0] + row * plan.row[0] + column * plan.column[0], plan.dtype[0], value);
    }
  }
}

}  // namespace weft::portable
