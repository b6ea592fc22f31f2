// Factorizations and solutions of single matrices, row-major, by recursion on matrix products. T is float, double or a
// complex number of either.
#pragma once

#include <cstdint>

#include "products.hpp"

namespace weft::cpu {

/// c[m, n] -= a[m, k] · b[k, n], or conj(a) · b, over the pool's threads where that is worthwhile.
template <class T>
void subtract_product(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t stride,
                      Conjugated left = Conjugated::no);

/// P a = L U in place with row exchanges: row j was exchanged with row pivots[j], from 0. Gives the number, from 1, of
/// the first pivot that is 0, else 0. (Toledo 1997: halves of the columns.)
template <class T>
int64_t lu(int64_t m, int64_t n, T* a, int64_t stride, int32_t* pivots);

/// a = uᴴ u in place, of the upper triangle alone. Gives the number, from 1, of the first leading minor that is not
/// positive, else 0.
template <class T>
int64_t cholesky_upper(int64_t n, T* a, int64_t stride);

/// Solves t x = b [n, columns] in place for a triangular t [n, n] of any strides; with `unit` its diagonal counts as
/// ones. A 0 on the diagonal gives infinities and NaN.
template <class T>
void solve_triangle(int64_t n, int64_t columns, Matrix<T> t, bool upper, bool unit, T* b, int64_t stride);

/// Rows j and pivots[j] of b [·, columns] are exchanged for j = 0 … count - 1, or in reverse.
template <class T>
void exchange_rows(int64_t count, int64_t columns, const int32_t* pivots, T* b, int64_t stride, bool reverse);

}  // namespace weft::cpu
