// Cholesky and LU factors, and solutions with them.
#include <algorithm>
#include <cmath>

#include "../workspace.hpp"
#include "batches.hpp"
#include "factor.hpp"
#include "../../linalg.hpp"
#include "reflectors.hpp"
#include "small.hpp"

namespace weft::cpu {
namespace {

template <class T>
int32_t cholesky_of(int64_t n, T* l, const T* a, bool upper) {
  const int64_t stride = padded(n);
  const Scratch memory(n * stride * static_cast<int64_t>(sizeof(T)));
  T* u = memory.as<T>();
  if (upper) copy_rows(n, n, a, n, u, stride);
  else adjoint(n, n, a, n, u, stride);
  const int64_t info = cholesky_upper(n, u, stride);
  for (int64_t i = 1; i < n; ++i) std::fill_n(u + i * stride, i, T(0));
  if (upper) copy_rows(n, n, u, stride, l, n);
  else adjoint(n, n, u, stride, l, n);
  return static_cast<int32_t>(info);
}

template <class T>
int32_t lu_of(int64_t m, int64_t n, T* out, int32_t* pivots, const T* a) {
  if (std::min(m, n) == 0) return 0;
  const int64_t stride = padded(n);
  const Scratch memory(m * stride * static_cast<int64_t>(sizeof(T)));
  T* lu = memory.as<T>();
  copy_rows(m, n, a, n, lu, stride);
  const int64_t info = cpu::lu(m, n, lu, stride, pivots);
  copy_rows(m, n, lu, stride, out, n);
  for (int64_t j = 0; j < std::min(m, n); ++j) ++pivots[j];
  return static_cast<int32_t>(info);
}

/// b [n, k] becomes the solution.
template <class T>
void solve_of(int64_t n, int64_t k, T* b, const T* lu, const int32_t* pivots, bool adjoint) {
  const Scratch memory(n * static_cast<int64_t>(sizeof(int32_t)));
  auto* rows = memory.as<int32_t>();
  for (int64_t j = 0; j < n; ++j) rows[j] = pivots[j] - 1;
  const Matrix<T> factors{lu, n, 1};
  if (!adjoint) {
    exchange_rows(n, k, rows, b, k, false);
    solve_triangle(n, k, factors, false, true, b, k);
    solve_triangle(n, k, factors, true, false, b, k);
  } else {  // aᴴ x = b is aᵀ conj(x) = conj(b)
    conjugate_all(n * k, b);
    solve_triangle(n, k, factors.transposed(), false, false, b, k);
    solve_triangle(n, k, factors.transposed(), true, true, b, k);
    exchange_rows(n, k, rows, b, k, true);
    conjugate_all(n * k, b);
  }
}

}  // namespace

void cholesky(const View& l, const View& info, const View& a, bool upper) {
  const int64_t n = size(a, 1);
  with_type(a, [&]<class T>(T) {
    if (small_cholesky<T>(l, info, a, upper)) return;
    each_matrix(a, cube(n) / 3,
                [&](int64_t b) { *part<int32_t>(info, b) = cholesky_of(n, part<T>(l, b), part<T>(a, b), upper); });
  });
}

void lu_factor(const View& lu, const View& pivots, const View& info, const View& a) {
  const int64_t m = size(a, 1), n = size(a, 2);
  with_type(a, [&]<class T>(T) {
    if (m == n && small_solve<T>({}, lu, pivots, info, a)) return;
    each_matrix(a, cube(std::max(m, n)) / 3, [&](int64_t b) {
      *part<int32_t>(info, b) = lu_of(m, n, part<T>(lu, b), part<int32_t>(pivots, b), part<T>(a, b));
    });
  });
}

void lu_solve(const View& x, const View& lu, const View& pivots, bool adjoint) {
  const int64_t n = size(x, 1), k = size(x, 2);
  with_type(x, [&]<class T>(T) {
    each_matrix(x, static_cast<double>(n * n) * static_cast<double>(k),
                [&](int64_t b) { solve_of(n, k, part<T>(x, b), part<T>(lu, b), part<int32_t>(pivots, b), adjoint); });
  });
}

void solve(const View& x, const View& lu, const View& pivots, const View& info, const View& a) {
  const int64_t n = size(x, 1), k = size(x, 2);
  with_type(x, [&]<class T>(T) {
    if (small_solve<T>(x, lu, pivots, info, a)) return;
    each_matrix(x, cube(n) / 3 + static_cast<double>(n * n) * static_cast<double>(k), [&](int64_t b) {
      *part<int32_t>(info, b) = lu_of(n, n, part<T>(lu, b), part<int32_t>(pivots, b), part<T>(a, b));
      solve_of(n, k, part<T>(x, b), part<T>(lu, b), part<int32_t>(pivots, b), false);
    });
  });
}

void solve_triangular(const View& x, const View& a, bool upper, bool unit) {
  const int64_t n = size(x, 1), k = size(x, 2);
  with_type(x, [&]<class T>(T) {
    if (small_solve_triangular<T>(x, a, upper, unit)) return;
    constexpr int64_t item = sizeof(T);
    each_matrix(x, static_cast<double>(n * n) * static_cast<double>(k), [&](int64_t b) {
      const Matrix<T> t{part<T>(a, b), a.layout.strides[1] / item, a.layout.strides[2] / item};
      solve_triangle(n, k, t, upper, unit, part<T>(x, b), k);
    });
  });
}

}  // namespace weft::cpu
