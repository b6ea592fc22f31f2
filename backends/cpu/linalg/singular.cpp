#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "bidiagonal.hpp"
#include "reflectors.hpp"
#include "spectral.hpp"

namespace weft::cpu {
namespace {

template <class T>
struct Reduced {
  Real<T>*d, *e;
  T *u, *tau_u;  ///< reflections from the left: rows of [n, m]
  T *v, *tau_v;  ///< from the right: rows of [n, n], row j is 0 before j + 1
};

/// a = U B Vᴴ. Each step passes over a twice: once for the update by the step before and the product with the left
/// reflection, once for the product with the right one.
template <class T>
void reduce(int64_t m, int64_t n, T* a, int64_t stride, const Reduced<T>& to, int64_t u_stride, int64_t v_stride) {
  const int64_t size = 2 * (m + n) + (parts<T> - 1) * n;
  const Workspace memory(static_cast<size_t>(size) * sizeof(T));
  T *w = memory.as<T>(), *z = w + n, *zeros = z + m, *conjugates = zeros + m + n;
  std::fill_n(w, size, T(0));
  const T *u = zeros, *v = zeros;  // of the step before, v conjugated
  for (int64_t k = 0; k < n; ++k) {
    T* x = to.u + k * u_stride;
    std::fill_n(x, k, T(0));
    for (int64_t i = k; i < m; ++i) x[i] = a[i * stride + k] - u[i] * w[k] - z[i] * v[k];
    const Reflection<T> left = make_reflection(m - k, x + k);
    to.d[k] = left.beta;
    to.tau_u[k] = left.tau;
    if (k + 1 == n) break;
    const int64_t at = k + 1, rest = n - at;
    T* y = to.v + k * v_stride;  // first the sums, then the right reflection
    std::fill_n(y, n, T(0));
    update_and_sum(m - k, rest, a + k * stride + at, stride, u + k, w + at, z + k, v + at, x + k, y + at);
    for (int64_t j = at; j < n; ++j) w[j] = conjugate(left.tau) * y[j];
    for (int64_t j = at; j < n; ++j) y[j] = conjugate(a[k * stride + j] - w[j]);
    const Reflection<T> right = make_reflection(rest, y + at);
    to.e[k] = right.beta;
    to.tau_v[k] = right.tau;
    rows_times(m - at, rest, a + at * stride + at, stride, y + at, z + at);
    const T both = dot(rest, w + at, y + at);
    for (int64_t i = at; i < m; ++i) z[i] = right.tau * (z[i] - x[i] * both);
    u = x;
    v = y;
    if constexpr (parts<T> == 2) {
      std::copy_n(y, n, conjugates);
      conjugate_all(n, conjugates);
      v = conjugates;
    }
  }
}

/// The first `rows` rows of the transpose of H0 H1 …
template <class T>
void form_transposed(const Reflections<T>& q, int64_t rows, T* x, int64_t stride) {
  std::fill_n(x, rows * stride, T(0));
  for (int64_t i = 0; i < rows; ++i) x[i * stride + i] = T(1);
  apply_reflections(q, true, rows, x, stride, true);
}

}  // namespace

template <class T>
int32_t singular_values(int64_t m, int64_t n, T* a, int64_t stride, Real<T>* values, T* u, int64_t u_columns, T* vh) {
  using R = Real<T>;
  if (n == 0) {
    for (int64_t i = 0; u != nullptr && i < m; ++i) {
      for (int64_t j = 0; j < u_columns; ++j) u[i * u_columns + j] = i == j ? T(1) : T(0);
    }
    return 0;
  }
  const R factor = safe_factor(m, n, a, stride);
  if (factor == 0) return not_finite;
  scale_rows(m, n, factor, a, stride);
  const bool wanted = u != nullptr;
  const int64_t tall = padded(m), wide = padded(n);
  const int64_t formed = wanted ? u_columns * tall + n * wide : 0;
  const Workspace memory(static_cast<size_t>(n * tall + n * wide + 4 * n + formed) * sizeof(T));
  T* left = memory.as<T>();
  T *right = left + n * tall, *tau_u = right + n * wide, *tau_v = tau_u + n, *ut = tau_v + 3 * n;
  R *d = reals(tau_v + n), *e = d + n;
  T* vectors = ut + u_columns * tall;
  reduce(m, n, a, stride, Reduced<T>{d, e, left, tau_u, right, tau_v}, tall, wide);
  if (wanted) {
    form_transposed(Reflections<T>{n, m, 0, left, tall, tau_u}, u_columns, ut, tall);
    form_transposed(Reflections<T>{n - 1, n, 1, right, wide, tau_v}, n, vectors, wide);
  }
  const int64_t count = parts<T>;
  Rotations<R> turns_u(n, (m + 15) / 16 * 16 * count, wanted ? reals(ut) : nullptr, tall * count);
  Rotations<R> turns_v(n, (n + 15) / 16 * 16 * count, wanted ? reals(vectors) : nullptr, wide * count);
  const int32_t info = Bidiagonal<R>(n, d, e, turns_u, turns_v).run();
  turns_u.flush();
  turns_v.flush();
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t x, int32_t y) { return std::fabs(d[x]) > std::fabs(d[y]); });
  for (int64_t j = 0; j < n; ++j) values[j] = std::fabs(d[order[static_cast<size_t>(j)]]) / factor;
  if (!wanted) return info;
  for (int64_t j = 0; j < n; ++j) {
    const int32_t from = order[static_cast<size_t>(j)];
    const R sign = std::signbit(d[from]) ? R(-1) : R(1);
    for (int64_t i = 0; i < n; ++i) vh[j * n + i] = times_real(sign, conjugate(vectors[from * wide + i]));
  }
  constexpr int64_t band = 16;  // rows of u that are written together
  for (int64_t i0 = 0; i0 < m; i0 += band) {
    for (int64_t j = 0; j < u_columns; ++j) {
      const T* row = ut + (j < n ? order[static_cast<size_t>(j)] : j) * tall;
      for (int64_t i = i0; i < std::min(i0 + band, m); ++i) u[i * u_columns + j] = row[i];
    }
  }
  return info;
}

#define WEFT_INSTANTIATE(T) template int32_t singular_values(int64_t, int64_t, T*, int64_t, Real<T>*, T*, int64_t, T*);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(complex64)
WEFT_INSTANTIATE(complex128)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
