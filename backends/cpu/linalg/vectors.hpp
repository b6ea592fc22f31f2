// Passes over rows of matrices, compiled for every SIMD target: the hot loops of factorizations besides matrix
// products. Matrices are row-major, `stride` elements from row to row. T is float, double or a complex number of
// either.
#pragma once

#include <cstdint>

#include "numbers.hpp"

namespace weft::cpu {

/// The sum of x y, and of conj(x) y.
template <class T>
T dot(int64_t n, const T* x, const T* y);
template <class T>
T inner(int64_t n, const T* x, const T* y);
/// y += a x
template <class T>
void axpy(int64_t n, T a, const T* x, T* y);
/// x *= a
template <class T>
void scale(int64_t n, T a, T* x);

/// y[i] = row i of a [rows, n] · x
template <class T>
void rows_times(int64_t rows, int64_t n, const T* a, int64_t stride, const T* x, T* y);
/// Each row r of a [rows, n] becomes r - tau (vᴴ r) v.
template <class T>
void reflect_rows(int64_t rows, int64_t n, T* a, int64_t stride, const T* v, T tau);
/// a [rows, n] -= u wᵀ + z vᵀ, and then sums [n] += xᴴ a, in one pass.
template <class T>
void update_and_sum(int64_t rows, int64_t n, T* a, int64_t stride, const T* u, const T* w, const T* z, const T* v,
                    const T* x, T* sums);
/// The same, and y [rows] = a t.
template <class T>
void update_both(int64_t rows, int64_t n, T* a, int64_t stride, const T* u, const T* w, const T* z, const T* v,
                 const T* x, T* sums, const T* t, T* y);
/// Of a Hermitian a [n, n], of which the lower triangle is stored, column i as row i: a -= u wᴴ + w uᴴ, and then y [n],
/// zeros, += a x.
template <class T>
void update_and_multiply(int64_t n, T* a, int64_t stride, const T* u, const T* w, const T* x, T* y);

/// LU with row exchanges of a [m, n], n at most 16, in place: row j was exchanged with row pivots[j]. Gives the number,
/// from 1, of the first pivot that is 0, else 0.
template <class T>
int64_t lu_panel(int64_t m, int64_t n, T* a, int64_t stride, int32_t* pivots);
/// a = uᴴ u in place, of the upper triangle of a [n, n]. Gives the number, from 1, of the first pivot that is not
/// positive, else 0.
template <class T>
int64_t cholesky_block(int64_t n, T* a, int64_t stride);
/// Solves l x = b [n, columns] in place, l [n, n] dense and lower triangular; `inverse` has the reciprocals of its
/// diagonal.
template <class T>
void solve_block(int64_t n, int64_t columns, const T* l, const T* inverse, T* b, int64_t stride);

/// Solves t x = b in place for one vector b and a triangle with dense rows (columns with `by_columns`) `stride` apart.
template <class T>
void solve_vector(int64_t n, const T* t, int64_t stride, bool by_columns, bool upper, bool unit, T* b);

/// I - tau v vᴴ times `count` rows of a, 2 or 3 of n elements.
template <class T>
void reflect_few_rows(int64_t count, int64_t n, T* a, int64_t stride, const T* v, T tau);
/// `count` columns of a, 2 or 3 of `rows` elements, times the same.
template <class T>
void reflect_few_columns(int64_t rows, int64_t count, T* a, int64_t stride, const T* v, T tau);

/// Rotations of neighbouring rows, in order: of rows first + i and first + i + 1 for i = 0 … count - 1, or backward.
/// With c and s, rows x and y become c x + s y and c y - s x.
struct Sweep {
  int64_t first, count;
  int64_t factors;  ///< where its c and s begin
  bool backward;
};
/// Applies sweeps to a real a [·, n]; n and stride are multiples of 16.
template <class T>
void rotate_rows(int64_t n, T* a, int64_t stride, const Sweep* sweeps, int64_t count, const T* c, const T* s);

}  // namespace weft::cpu
