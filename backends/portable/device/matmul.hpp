// Matrix products in tiles: a group of 16 x 16 work-items computes T x T outputs each.
#pragma once

#include "team.hpp"

namespace weft::portable {

/// Edge of a group; also how many elements of k are in shared memory at a time.
enum { tile_edge = 16 };

template <class C>
WEFT_DEVICE C multiply_add(C sum, C a, C b) {
  return Plus::combine(sum, Times::combine(a, b));
}

/// Brings rows [first, first + 16 T) x 16 elements of k into shared memory, zeros beyond the edges.
template <class C, int T>
WEFT_DEVICE void load_tile(WEFT_LOCAL C* tile, In data, int64_t first, int64_t rows, int64_t row_step, int64_t k,
                           int64_t depth, int64_t k_step, DType dtype) {
  // Neighbouring items read along the direction in which elements are closer.
  const bool along_k = (k_step < 0 ? -k_step : k_step) <= (row_step < 0 ? -row_step : row_step);
  const int x = weft_local(0), y = weft_local(1);
  for (int t = 0; t < T; ++t) {
    const int row = along_k ? y + t * tile_edge : x + t * tile_edge, p = along_k ? x : y;
    const bool inside = first + row < rows && k + p < depth;
    C value = 0;
    if (inside) value = Memory<C>::load(data + (first + row) * row_step + (k + p) * k_step, dtype);
    tile[p * tile_edge * T + row] = value;
  }
}

template <class C, int T>
WEFT_DEVICE void matmul_tile(Out out, In a, In b, In bias, const Matmul& plan, WEFT_LOCAL C* left,
                             WEFT_LOCAL C* right) {
  enum { edge = tile_edge * T };
  int64_t offset[4];
  offsets_at(plan.batch, weft_group(2), offset);
  const int x = weft_local(0), y = weft_local(1);
  const int64_t first_row = weft_group(1) * edge, first_column = weft_group(0) * edge;
  C sum[T][T];
  for (int i = 0; i < T; ++i) {
    for (int j = 0; j < T; ++j) sum[i][j] = 0;
  }
  for (int64_t k = 0; k < plan.k; k += tile_edge) {
    load_tile<C, T>(left, a + offset[1], first_row, plan.m, plan.row[1], k, plan.k, plan.column[1], plan.dtype[1]);
    load_tile<C, T>(right, b + offset[2], first_column, plan.n, plan.column[2], k, plan.k, plan.row[2], plan.dtype[2]);
    weft_barrier();
    for (int p = 0; p < tile_edge; ++p) {
      C column[T];
      for (int j = 0; j < T; ++j) column[j] = right[p * edge + j * tile_edge + x];
      for (int i = 0; i < T; ++i) {
        const C row = left[p * edge + i * tile_edge + y];
        for (int j = 0; j < T; ++j) sum[i][j] = multiply_add(sum[i][j], row, column[j]);
      }
    }
    weft_barrier();
  }
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
