// Balancing of square matrices before their eigenvalues are sought. T is real or complex.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "numbers.hpp"

namespace weft::cpu {

/// The result of `balance`: rows and columns first … last form the part that is not triangular. `changes` [n] has the
/// exchanged row and column for the others, and the divisor of the row for these.
template <class T>
struct Balance {
  int64_t first, last;
  Real<T>* changes;
};

namespace balancing {

/// Exchanges rows i and j from column `from` on, and columns i and j down to row `to`.
template <class T>
void exchange(int64_t n, T* a, int64_t stride, int64_t i, int64_t j, int64_t from, int64_t to) {
  if (i == j) return;
  for (int64_t k = 0; k <= to; ++k) std::swap(a[k * stride + i], a[k * stride + j]);
  for (int64_t k = from; k < n; ++k) std::swap(a[i * stride + k], a[j * stride + k]);
}

/// The last row of the part with zeros beside the diagonal, or -1.
template <class T>
int64_t lonely_row(const T* a, int64_t stride, int64_t first, int64_t last) {
  for (int64_t i = last; i >= first; --i) {
    bool alone = true;
    for (int64_t j = first; j <= last && alone; ++j) alone = i == j || a[i * stride + j] == T(0);
    if (alone) return i;
  }
  return -1;
}
template <class T>
int64_t lonely_column(const T* a, int64_t stride, int64_t first, int64_t last) {
  for (int64_t j = first; j <= last; ++j) {
    bool alone = true;
    for (int64_t i = first; i <= last && alone; ++i) alone = i == j || a[i * stride + j] == T(0);
    if (alone) return j;
  }
  return -1;
}

/// The length of `count` numbers `step` apart, whatever their scale.
template <class T>
Real<T> length_of(int64_t count, const T* x, int64_t step) {
  using R = Real<T>;
  R most = 0, sum = 0;
  for (int64_t k = 0; k < count; ++k) most = std::max(most, size_of(x[k * step]));
  if (most < std::numeric_limits<R>::min()) return 0;
  const R factor = 1 / most;
  for (int64_t k = 0; k < count; ++k) {
    const T part = times_real(factor, x[k * step]);
    sum += real_part(conjugate(part) * part);
  }
  return most * std::sqrt(sum);
}

/// Multiplies row and column i by powers of 2 until their lengths are near; whether it did.
template <class T>
bool scale_one(int64_t n, T* a, int64_t stride, const Balance<T>& part, int64_t i) {
  using R = Real<T>;
  constexpr R least = std::numeric_limits<R>::min() / std::numeric_limits<R>::epsilon(), most = 1 / least;
  const int64_t size = part.last - part.first + 1;
  R c = length_of(size, a + part.first * stride + i, stride),
    r = length_of(size, a + i * stride + part.first, int64_t{1});
  R column_most = 0, row_most = 0;
  for (int64_t k = 0; k <= part.last; ++k) column_most = std::max(column_most, size_of(a[k * stride + i]));
  for (int64_t k = part.first; k < n; ++k) row_most = std::max(row_most, size_of(a[i * stride + k]));
  if (c == 0 || r == 0) return false;
  R f = 1;
  const R before = c + r;
  while (c < r / 2 && std::max({f, c, column_most}) < most / 2 && std::min(r, row_most) > least * 2) {
    f *= 2, c *= 2, column_most *= 2, r /= 2, row_most /= 2;
  }
  while (c / 2 >= r && std::max(r, row_most) < most / 2 && std::min({f, c, column_most}) > least * 2) {
    f /= 2, c /= 2, column_most /= 2, r *= 2, row_most *= 2;
  }
  if (!(c + r < R(0.95) * before)) return false;
  R& total = part.changes[i];
  if ((f < 1 && total < 1 && f * total <= least) || (f > 1 && total > 1 && total >= most / f)) return false;
  total *= f;
  for (int64_t k = part.first; k < n; ++k) a[i * stride + k] = over_real(a[i * stride + k], f);
  for (int64_t k = 0; k <= part.last; ++k) a[k * stride + i] = times_real(f, a[k * stride + i]);
  return true;
}

}  // namespace balancing

/// Moves triangular rows and columns to the ends by exchanges, and scales the rest by powers of 2, which keeps the
/// eigenvalues (Parlett and Reinsch 1969; James, Langou and Lowery 2014).
template <class T>
Balance<T> balance(int64_t n, T* a, int64_t stride, Real<T>* changes) {
  Balance<T> part{0, n - 1, changes};
  while (part.last >= 0) {
    const int64_t i = balancing::lonely_row(a, stride, int64_t{0}, part.last);
    if (i < 0) break;
    balancing::exchange(n, a, stride, i, part.last, int64_t{0}, part.last);
    changes[part.last--] = static_cast<Real<T>>(i);
  }
  while (part.first <= part.last) {
    const int64_t j = balancing::lonely_column(a, stride, part.first, part.last);
    if (j < 0) break;
    balancing::exchange(n, a, stride, j, part.first, part.first, part.last);
    changes[part.first++] = static_cast<Real<T>>(j);
  }
  std::fill(changes + part.first, changes + std::max(part.last + 1, part.first), Real<T>(1));
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t i = part.first; i <= part.last; ++i) moved |= balancing::scale_one(n, a, stride, part, i);
  }
  return part;
}

/// Makes the eigenvector x of the balanced matrix that of the matrix itself.
template <class T, class X>
void unbalance(int64_t n, const Balance<T>& part, X* x) {
  for (int64_t i = part.first; i <= part.last; ++i) x[i] = times_real(part.changes[i], x[i]);
  for (int64_t i = part.first - 1; i >= 0; --i) std::swap(x[i], x[static_cast<int64_t>(part.changes[i])]);
  for (int64_t i = part.last + 1; i < n; ++i) std::swap(x[i], x[static_cast<int64_t>(part.changes[i])]);
}

}  // namespace weft::cpu
