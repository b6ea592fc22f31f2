#include "reflectors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../thread_pool.hpp"
#include "../workspace.hpp"
#include "products.hpp"
#include "vectors.hpp"

namespace weft::cpu {
namespace {

constexpr int64_t block = 32;

/// The length of x, whatever its scale.
template <class R>
R length_of(int64_t n, const R* x) {
  const R squares = dot(n, x, x);
  if (squares > std::numeric_limits<R>::min() * R(1e4) && squares < std::numeric_limits<R>::max()) {
    return std::sqrt(squares);
  }
  R most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(x[i]));
  if (!(most > 0) || std::isinf(most)) return squares == squares ? most : squares;
  R sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (x[i] / most) * (x[i] / most);
  return most * std::sqrt(sum);
}

/// T of H0 … H(n-1) = I - V T Vᴴ, upper triangular, row-major: its conjugate, or with `reversed` its transpose, because
/// V's columns are stored as rows.
template <class T>
void block_factor(int64_t n, int64_t length, const T* v, int64_t stride, const T* tau, bool reversed, T* t) {
  T products[block * block], factor[block * block];  // element (i, j) is v_jᴴ v_i
  multiply(n, n, length, Matrix<T>{v, stride, 1}, Matrix<T>{v, 1, stride}, Conjugated::yes, {}, products, n);
  std::fill_n(factor, n * n, T(0));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < j; ++i) {
      T sum = T(0);
      for (int64_t k = i; k < j; ++k) sum = sum + factor[i * n + k] * products[j * n + k];
      factor[i * n + j] = -tau[j] * sum;
    }
    factor[j * n + j] = tau[j];
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) t[i * n + j] = reversed ? factor[j * n + i] : conjugate(factor[i * n + j]);
  }
}

/// x [rows, length] -= x Vᴴ t V for the rows of V.
template <class T>
void apply_block(int64_t n, int64_t length, const T* v, int64_t v_stride, const T* t, int64_t rows, T* x,
                 int64_t stride) {
  const int64_t chunk = std::max<int64_t>(64, (int64_t{1} << 17) / std::max<int64_t>(length * n, 1));
  parallel_for(rows, chunk, [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const Scratch memory(2 * count * n * static_cast<int64_t>(sizeof(T)));
    T *products = memory.as<T>(), *turned = products + count * n;
    T* part = x + begin * stride;
    multiply(count, n, length, Matrix<T>{part, stride, 1}, Matrix<T>{v, 1, v_stride}, Conjugated::yes, {}, products, n);
    multiply(count, n, n, Matrix<T>{products, n, 1}, Matrix<T>{t, n, 1}, Conjugated::no, {}, turned, n);
    for (int64_t i = 0; i < count * n; ++i) turned[i] = -turned[i];
    multiply(count, length, n, Matrix<T>{turned, n, 1}, Matrix<T>{v, v_stride, 1}, Conjugated::no, {part, stride}, part,
             stride);
  });
}

}  // namespace

template <class T>
Reflection<T> make_reflection(int64_t n, T* x) {
  using R = Real<T>;
  if (n == 0) return {T(0), 0};
  const T alpha = x[0];
  const R rest = length_of((n - 1) * parts<T>, reals(x + 1));
  x[0] = T(1);
  if (rest == 0 && imaginary_part(alpha) == 0) return {T(0), real_part(alpha)};
  const R beta = -std::copysign(std::hypot(magnitude_of(alpha), rest), real_part(alpha));
  const T divisor = alpha - T(beta), inverse = T(1) / divisor;
  if (size_of(inverse) < std::numeric_limits<R>::infinity()) {
    scale(n - 1, inverse, x + 1);
  } else {
    for (int64_t i = 1; i < n; ++i) x[i] = x[i] / divisor;
  }
  return {-over_real(divisor, beta), beta};
}

template <class T>
void apply_reflections(const Reflections<T>& q, bool reversed, int64_t rows, T* x, int64_t stride, bool triangular) {
  T t[block * block];
  const int64_t blocks = (q.count + block - 1) / block;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = (reversed ? blocks - 1 - b : b) * block, n = std::min(block, q.count - first);
    const int64_t at = first + q.shift, length = q.length - at;
    if (length <= 0) continue;
    const T* v = q.rows + first * q.stride + at;
    block_factor(n, length, v, q.stride, q.tau + first, reversed, t);
    const int64_t skipped = triangular ? std::min(at, rows) : 0;
    apply_block(n, length, v, q.stride, t, rows - skipped, x + skipped * stride + at, stride);
  }
}

template <class T>
void factor_rows(int64_t n, int64_t m, T* a, int64_t stride, T* tau, T* r, int64_t r_stride) {
  const int64_t count = std::min(n, m);
  T t[block * block];
  for (int64_t first = 0; first < count; first += block) {
    const int64_t b = std::min(block, count - first);
    for (int64_t j = first; j < first + b; ++j) {
      T* row = a + j * stride;
      const Reflection<T> h = make_reflection(m - j, row + j);
      tau[j] = h.tau;
      for (int64_t k = 0; k < j; ++k) {
        r[k * r_stride + j] = row[k];
        row[k] = T(0);
      }
      r[j * r_stride + j] = T(h.beta);
      for (int64_t k = j + 1; k < count; ++k) r[k * r_stride + j] = T(0);
      if (h.tau != T(0)) {
        reflect_rows(first + b - 1 - j, m - j, row + stride + j, stride, row + j, conjugate(h.tau));
      }
    }
    const int64_t next = first + b;
    if (next == n) break;
    const T* v = a + first * stride + first;
    block_factor(b, m - first, v, stride, tau + first, false, t);
    // Each row is a column of the matrix that is factored, which H(b-1)ᴴ … H0ᴴ takes to the triangle.
    apply_block(b, m - first, v, stride, t, n - next, a + next * stride + first, stride);
  }
  for (int64_t j = count; j < n; ++j) {
    for (int64_t k = 0; k < count; ++k) r[k * r_stride + j] = a[j * stride + k];
  }
}

#define WEFT_INSTANTIATE(T)                                                                 \
  template Reflection<T> make_reflection(int64_t, T*);                                      \
  template void apply_reflections(const Reflections<T>&, bool, int64_t, T*, int64_t, bool); \
  template void factor_rows(int64_t, int64_t, T*, int64_t, T*, T*, int64_t);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(complex64)
WEFT_INSTANTIATE(complex128)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
