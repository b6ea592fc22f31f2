#include "reflectors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../matmul/gemm.hpp"
#include "../thread_pool.hpp"
#include "../workspace.hpp"
#include "factor.hpp"
#include "vectors.hpp"

namespace weft::cpu {
namespace {

constexpr int64_t block = 32;

/// The length of x, whatever its scale.
template <class T>
T length_of(int64_t n, const T* x) {
  const T squares = dot(n, x, x);
  if (squares > std::numeric_limits<T>::min() * T(1e4) && squares < std::numeric_limits<T>::max()) {
    return std::sqrt(squares);
  }
  T most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(x[i]));
  if (!(most > 0) || std::isinf(most)) return squares == squares ? most : squares;
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (x[i] / most) * (x[i] / most);
  return most * std::sqrt(sum);
}

/// T of H0 … H(n-1) = I - V T Vᵀ, upper triangular, row-major.
template <class T>
void block_factor(int64_t n, int64_t length, const T* v, int64_t stride, const T* tau, T* t) {
  T products[block * block];
  native_gemm(n, n, length, Matrix<T>{v, stride, 1}, Matrix<T>{v, 1, stride}, {}, products, n);
  std::fill_n(t, n * n, T(0));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < j; ++i) {
      T sum = 0;
      for (int64_t k = i; k < j; ++k) sum += t[i * n + k] * products[k * n + j];
      t[i * n + j] = -tau[j] * sum;
    }
    t[j * n + j] = tau[j];
  }
}

/// x [rows, length] -= x Vᵀ T V with T as it is or transposed.
template <class T>
void apply_block(int64_t n, int64_t length, const T* v, int64_t v_stride, const T* t, bool transposed, int64_t rows,
                 T* x, int64_t stride) {
  const int64_t chunk = std::max<int64_t>(64, (int64_t{1} << 17) / std::max<int64_t>(length * n, 1));
  parallel_for(rows, chunk, [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const Scratch memory(2 * count * n * static_cast<int64_t>(sizeof(T)));
    T *products = memory.as<T>(), *turned = products + count * n;
    T* part = x + begin * stride;
    native_gemm(count, n, length, Matrix<T>{part, stride, 1}, Matrix<T>{v, 1, v_stride}, {}, products, n);
    native_gemm(count, n, n, Matrix<T>{products, n, 1}, transposed ? Matrix<T>{t, 1, n} : Matrix<T>{t, n, 1}, {},
                turned, n);
    for (int64_t i = 0; i < count * n; ++i) turned[i] = -turned[i];
    native_gemm(count, length, n, Matrix<T>{turned, n, 1}, Matrix<T>{v, v_stride, 1}, {part, stride}, part, stride);
  });
}

}  // namespace

template <class T>
Reflection<T> make_reflection(int64_t n, T* x) {
  if (n == 0) return {0, 0};
  const T alpha = x[0], rest = length_of(n - 1, x + 1);
  x[0] = 1;
  if (rest == 0) return {0, alpha};
  const T beta = -std::copysign(std::hypot(alpha, rest), alpha);
  const T divisor = alpha - beta;
  if (std::fabs(T(1) / divisor) < std::numeric_limits<T>::infinity()) {
    scale(n - 1, T(1) / divisor, x + 1);
  } else {
    for (int64_t i = 1; i < n; ++i) x[i] /= divisor;
  }
  return {(beta - alpha) / beta, beta};
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
    block_factor(n, length, v, q.stride, q.tau + first, t);
    const int64_t skipped = triangular ? std::min(at, rows) : 0;
    apply_block(n, length, v, q.stride, t, reversed, rows - skipped, x + skipped * stride + at, stride);
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
        row[k] = 0;
      }
      r[j * r_stride + j] = h.beta;
      for (int64_t k = j + 1; k < count; ++k) r[k * r_stride + j] = 0;
      if (h.tau != 0) reflect_rows(first + b - 1 - j, m - j, row + stride + j, stride, row + j, h.tau);
    }
    const int64_t next = first + b;
    if (next == n) break;
    const T* v = a + first * stride + first;
    block_factor(b, m - first, v, stride, tau + first, t);
    // Each row is a column of the matrix that is factored, which H(b-1) … H0 takes to the triangle.
    apply_block(b, m - first, v, stride, t, false, n - next, a + next * stride + first, stride);
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
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
