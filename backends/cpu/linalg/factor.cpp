#include "factor.hpp"

#include <algorithm>
#include <utility>

#include "../thread_pool.hpp"
#include "../workspace.hpp"
#include "vectors.hpp"

namespace weft::cpu {
namespace {

/// Blocks that are worked on without recursion.
constexpr int64_t block = 16;
/// Multiply-adds that are worth handing to another thread.
constexpr double worthwhile = 1 << 18;

/// c += a · b
template <class R>
void add_tiles(int64_t m, int64_t n, int64_t k, Matrix<R> a, Matrix<R> b, R* c, int64_t stride) {
  const MatrixTiles tile = choose_tiles(1, m, n, k);
  const int64_t across = (n - 1) / tile.columns + 1, tiles = across * ((m - 1) / tile.rows + 1);
  const double volume = static_cast<double>(tile.rows) * static_cast<double>(tile.columns) * static_cast<double>(k);
  parallel_for(tiles, std::max<int64_t>(static_cast<int64_t>(worthwhile / volume), 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t i = t / across * tile.rows, j = t % across * tile.columns;
      R* to = c + i * stride + j;
      native_gemm(std::min(tile.rows, m - i), std::min(tile.columns, n - j), k, a.from(i, 0), b.from(0, j),
                  {to, stride}, to, stride);
    }
  });
}

template <class T>
void negate(int64_t rows, int64_t columns, Matrix<T> from, Conjugated conjugated, T* to) {
  const bool turned = parts<T> == 2 && conjugated == Conjugated::yes;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const T x = from.data[i * from.row + j * from.column];
      to[i * columns + j] = -(turned ? conjugate(x) : x);
    }
  }
}

}  // namespace

template <class T>
void subtract_product(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t stride,
                      Conjugated conjugated) {
  if (m == 0 || n == 0 || k == 0) return;
  if constexpr (parts<T> == 2) {
    using R = Real<T>;
    const Scratch left((m + 2 * n) * k * static_cast<int64_t>(sizeof(T)));
    T* negated = left.as<T>();
    R* below = reals(negated + m * k);
    negate(m, k, a, conjugated, negated);
    parts_below(k, n, b, Conjugated::no, below);
    add_tiles(m, 2 * n, 2 * k, Matrix<R>{reals(negated), 2 * k, 1}, Matrix<R>{below, 2 * n, 1}, reals(c), 2 * stride);
  } else {
    const bool left = m <= n;
    const int64_t rows = left ? m : k, columns = left ? k : n;
    const Scratch memory(rows * columns * static_cast<int64_t>(sizeof(T)));
    T* negated = memory.as<T>();
    negate(rows, columns, left ? a : b, conjugated, negated);
    (left ? a : b) = {negated, columns, 1};
    add_tiles(m, n, k, a, b, c, stride);
  }
}

template <class T>
void exchange_rows(int64_t count, int64_t columns, const int32_t* pivots, T* b, int64_t stride, bool reverse) {
  for (int64_t n = 0; n < count; ++n) {
    const int64_t j = reverse ? count - 1 - n : n;
    if (pivots[j] != j) std::swap_ranges(b + j * stride, b + j * stride + columns, b + pivots[j] * stride);
  }
}

template <class T>
void solve_triangle(int64_t n, int64_t columns, Matrix<T> t, bool upper, bool unit, T* b, int64_t stride) {
  if (n == 0 || columns == 0) return;
  if (columns == 1 && stride == 1 && n <= 64 && (t.column == 1 || t.row == 1)) {
    return solve_vector(n, t.data, t.column == 1 ? t.row : t.column, t.column != 1, upper, unit, b);
  }
  if (n > block) {
    const int64_t half = (n / 2 + block - 1) / block * block, rest = n - half;
    T* below = b + half * stride;
    if (upper) {
      solve_triangle(rest, columns, t.from(half, half), upper, unit, below, stride);
      subtract_product(half, columns, rest, t.from(0, half), Matrix<T>{below, stride, 1}, b, stride);
      return solve_triangle(half, columns, t, upper, unit, b, stride);
    }
    solve_triangle(half, columns, t, upper, unit, b, stride);
    subtract_product(rest, columns, half, t.from(half, 0), Matrix<T>{b, stride, 1}, below, stride);
    return solve_triangle(rest, columns, t.from(half, half), upper, unit, below, stride);
  }
  T l[block * block], inverse[block];
  // An upper triangle is a lower one with rows and columns counted from the end.
  const auto place = [&](int64_t i) { return upper ? n - 1 - i : i; };
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) l[i * n + j] = t.data[place(i) * t.row + place(j) * t.column];
    inverse[i] = unit ? T(1) : T(1) / t.data[place(i) * (t.row + t.column)];
  }
  solve_block(n, columns, l, inverse, upper ? b + (n - 1) * stride : b, upper ? -stride : stride);
}

template <class T>
int64_t lu(int64_t m, int64_t n, T* a, int64_t stride, int32_t* pivots) {
  if (m == 0 || n == 0) return 0;
  if (n <= block) return lu_panel(m, n, a, stride, pivots);
  const int64_t left = std::min(m, n) > block ? (std::min(m, n) / 2 + block - 1) / block * block : std::min(m, block);
  const int64_t right = n - left, rest = m - left;
  const int64_t first = lu(m, left, a, stride, pivots);
  exchange_rows(left, right, pivots, a + left, stride, false);
  solve_triangle(left, right, Matrix<T>{a, stride, 1}, false, true, a + left, stride);
  if (rest == 0) return first;
  T *low = a + left * stride, *corner = low + left;
  subtract_product(rest, right, left, Matrix<T>{low, stride, 1}, Matrix<T>{a + left, stride, 1}, corner, stride);
  const int64_t second = lu(rest, right, corner, stride, pivots + left);
  const int64_t count = std::min(rest, right);
  exchange_rows(count, left, pivots + left, low, stride, false);
  for (int64_t j = 0; j < count; ++j) pivots[left + j] += static_cast<int32_t>(left);
  return first != 0 ? first : second != 0 ? second + left : 0;
}

template <class T>
int64_t cholesky_upper(int64_t n, T* a, int64_t stride) {
  if (n == 0) return 0;
  if (n <= block) return cholesky_block(n, a, stride);
  const int64_t half = (n / 2 + block - 1) / block * block, rest = n - half;
  if (const int64_t info = cholesky_upper(half, a, stride)) return info;
  T *right = a + half, *corner = right + half * stride;
  // u11ᴴ x = b is u11ᵀ conj(x) = conj(b).
  for (int64_t i = 0; i < half; ++i) conjugate_all(rest, right + i * stride);
  solve_triangle(half, rest, Matrix<T>{a, 1, stride}, false, false, right, stride);
  for (int64_t i = 0; i < half; ++i) conjugate_all(rest, right + i * stride);
  constexpr int64_t band = 128;
  for (int64_t i = 0; i < rest; i += band) {
    const Matrix<T> rows{right + i, stride, 1};
    subtract_product(std::min(band, rest - i), rest - i, half, rows.transposed(), rows, corner + i * (stride + 1),
                     stride, Conjugated::yes);
  }
  const int64_t info = cholesky_upper(rest, corner, stride);
  return info != 0 ? info + half : 0;
}

#define WEFT_INSTANTIATE(T)                                                                                 \
  template void subtract_product(int64_t, int64_t, int64_t, Matrix<T>, Matrix<T>, T*, int64_t, Conjugated); \
  template int64_t lu(int64_t, int64_t, T*, int64_t, int32_t*);                                             \
  template int64_t cholesky_upper(int64_t, T*, int64_t);                                                    \
  template void solve_triangle(int64_t, int64_t, Matrix<T>, bool, bool, T*, int64_t);                       \
  template void exchange_rows(int64_t, int64_t, const int32_t*, T*, int64_t, bool);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(complex64)
WEFT_INSTANTIATE(complex128)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
