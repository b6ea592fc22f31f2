// Products of rows with rows in tiles: a group of 16 x 16 work-items computes 16 T x 16 T of them. The rows come from a
// source, which maps a row and an element to an address, and returns zeros outside.
//
// Matrix products, convolutions and attention use the same loop with different sources, so convolutions copy nothing
// into columns. Sums that are split into pieces are added by a second launch, never by atomics.
#pragma once

#include "team.hpp"

namespace weft::portable {

/// Edge of a group; also how many elements of each row are in shared memory at a time.
enum { tile_edge = 16 };
/// The size of a tile of `columns` columns in shared memory; columns are 16 T + 1 apart, so that neighbours along
/// either direction are in different banks.
#define WEFT_TILE(T, columns) ((columns) * (16 * (T) + 1))

template <class C>
WEFT_DEVICE C multiply_add(C sum, C a, C b) {
  return Plus::combine(sum, Times::combine(a, b));
}

/// A row, or an element along the rows, of StridedRows.
struct Place {
  int64_t offset;
  bool inside;
};

/// Rows of `depth` numbers at fixed steps.
template <class C>
struct StridedRows {
  typedef Place Row;
  typedef Place Depth;
  In data;
  int64_t rows, row_step, depth, step;
  DType dtype;

  /// Whether neighbours along a row are closer than neighbouring rows.
  WEFT_DEVICE bool runs_along() const { return (step < 0 ? -step : step) <= (row_step < 0 ? -row_step : row_step); }
  WEFT_DEVICE Place row(int64_t i) const { return place(i, rows, row_step); }
  WEFT_DEVICE Place at_depth(int64_t k) const { return place(k, depth, step); }
  WEFT_DEVICE C at(const Place& row, const Place& k) const {
    return row.inside && k.inside ? Memory<C>::load(data + row.offset + k.offset, dtype) : (C)0;
  }

 private:
  static WEFT_DEVICE Place place(int64_t i, int64_t count, int64_t step) {
    Place p;
    p.offset = i * step;
    p.inside = i < count;
    return p;
  }
};

/// The rows of a source that this work-item brings into shared memory, tile by tile.
template <class C, int T, class S>
struct TileReader {
  typename S::Row rows[T];
  int p, slot;  ///< its column in a tile, and its first row there

  WEFT_DEVICE void start(const S& source, int64_t first) {
    // Neighbouring items read along the direction in which elements are closer.
    const bool along = source.runs_along();
    p = weft_local(along ? 0 : 1);
    slot = weft_local(along ? 1 : 0);
    for (int t = 0; t < T; ++t) rows[t] = source.row(first + slot + t * tile_edge);
  }
  /// Elements [k, k + 16) of all rows.
  WEFT_DEVICE void read(WEFT_LOCAL C* tile, const S& source, int64_t k) const {
    const typename S::Depth depth = source.at_depth(k + p);
    for (int t = 0; t < T; ++t) tile[p * (tile_edge * T + 1) + slot + t * tile_edge] = source.at(rows[t], depth);
  }
};

/// A launch's groups in order; z continues x beyond its limit.
WEFT_DEVICE int64_t tile_number() { return weft_group(0) + (weft_group(2) << 30); }
/// The row or column of a tile at [i] or [j] of this work-item's elements.
WEFT_DEVICE int tile_row(int i) { return i * tile_edge + weft_local(1); }
WEFT_DEVICE int tile_column(int j) { return j * tile_edge + weft_local(0); }

template <class C, int T>
WEFT_DEVICE void clear_tile(C (&sum)[T][T]) {
  for (int i = 0; i < T; ++i) {
    for (int j = 0; j < T; ++j) sum[i][j] = 0;
  }
}

/// Adds the products of the tiles' rows: of row 16 i + y of `left` with row 16 j + x of `right` to sum[i][j].
template <class C, int T>
WEFT_DEVICE void add_products(C (&sum)[T][T], const WEFT_LOCAL C* left, const WEFT_LOCAL C* right) {
  enum { line = tile_edge * T + 1 };
  const int x = weft_local(0), y = weft_local(1);
  for (int p = 0; p < tile_edge; ++p) {
    C column[T];
    for (int j = 0; j < T; ++j) column[j] = right[p * line + j * tile_edge + x];
    for (int i = 0; i < T; ++i) {
      const C row = left[p * line + i * tile_edge + y];
      for (int j = 0; j < T; ++j) sum[i][j] = multiply_add(sum[i][j], row, column[j]);
    }
  }
}

/// sum = the products of rows from `first_row` of a on with those from `first_column` of b on, over the elements
/// [begin, end).
template <class C, int T, class A, class B>
WEFT_DEVICE void multiply_rows(C (&sum)[T][T], const A& a, const B& b, int64_t first_row, int64_t first_column,
                               int64_t begin, int64_t end, WEFT_LOCAL C* left, WEFT_LOCAL C* right) {
  TileReader<C, T, A> from_a;
  TileReader<C, T, B> from_b;
  from_a.start(a, first_row);
  from_b.start(b, first_column);
  clear_tile<C, T>(sum);
  for (int64_t k = begin; k < end; k += tile_edge) {
    from_a.read(left, a, k);
    from_b.read(right, b, k);
    weft_barrier();
    add_products<C, T>(sum, left, right);
    weft_barrier();
  }
}

}  // namespace weft::portable
