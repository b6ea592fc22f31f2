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
  T *d, *e;
  T *u, *tau_u;  ///< reflections from the left: rows of [n, m]
  T *v, *tau_v;  ///< from the right: rows of [n, n], row j is 0 before j + 1
};

/// a = U B Vᵀ. Each step passes over a twice: once for the update by the step before and the product with the left
/// reflection, once for the product with the right one.
template <class T>
void reduce(int64_t m, int64_t n, T* a, int64_t stride, const Reduced<T>& to, int64_t u_stride, int64_t v_stride) {
  const Workspace memory(static_cast<size_t>(2 * (m + n)) * sizeof(T));
  T *w = memory.as<T>(), *z = w + n, *zeros = z + m;
  std::fill_n(w, 2 * (m + n), T(0));
  const T *u = zeros, *v = zeros;  // of the step before
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
    for (int64_t j = at; j < n; ++j) w[j] = left.tau * y[j];
    for (int64_t j = at; j < n; ++j) y[j] = a[k * stride + j] - w[j];
    const Reflection<T> right = make_reflection(rest, y + at);
    to.e[k] = right.beta;
    to.tau_v[k] = right.tau;
    rows_times(m - at, rest, a + at * stride + at, stride, y + at, z + at);
    const T both = dot(rest, w + at, y + at);
    for (int64_t i = at; i < m; ++i) z[i] = right.tau * (z[i] - x[i] * both);
    u = x;
    v = y;
  }
}

/// The first `rows` rows of the transpose of H0 H1 …
template <class T>
void form_transposed(const Reflections<T>& q, int64_t rows, T* x, int64_t stride) {
  std::fill_n(x, rows * stride, T(0));
  for (int64_t i = 0; i < rows; ++i) x[i * stride + i] = 1;
  apply_reflections(q, true, rows, x, stride, true);
}

}  // namespace

template <class T>
int32_t singular_values(int64_t m, int64_t n, T* a, int64_t stride, T* values, T* u, int64_t u_columns, T* vt) {
  if (n == 0) {
    for (int64_t i = 0; u != nullptr && i < m; ++i) {
      for (int64_t j = 0; j < u_columns; ++j) u[i * u_columns + j] = i == j ? T(1) : T(0);
    }
    return 0;
  }
  const T factor = safe_factor(m, n, a, stride);
  if (factor == 0) return not_finite;
  if (factor != 1) {
    for (int64_t i = 0; i < m; ++i) scale(n, factor, a + i * stride);
  }
  const bool wanted = u != nullptr;
  const int64_t tall = padded(m), wide = padded(n);
  const int64_t formed = wanted ? u_columns * tall + n * wide : 0;
  const Workspace memory(static_cast<size_t>(n * tall + n * wide + 4 * n + formed) * sizeof(T));
  T* left = memory.as<T>();
  T *right = left + n * tall, *d = right + n * wide, *e = d + n, *tau_u = e + n, *tau_v = tau_u + n, *ut = tau_v + n;
  T* vectors = ut + u_columns * tall;
  reduce(m, n, a, stride, Reduced<T>{d, e, left, tau_u, right, tau_v}, tall, wide);
  if (wanted) {
    form_transposed(Reflections<T>{n, m, 0, left, tall, tau_u}, u_columns, ut, tall);
    form_transposed(Reflections<T>{n - 1, n, 1, right, wide, tau_v}, n, vectors, wide);
  }
  Rotations<T> turns_u(n, (m + 15) / 16 * 16, wanted ? ut : nullptr, tall);
  Rotations<T> turns_v(n, (n + 15) / 16 * 16, wanted ? vectors : nullptr, wide);
  const int32_t info = Bidiagonal<T>(n, d, e, turns_u, turns_v).run();
  turns_u.flush();
  turns_v.flush();
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t x, int32_t y) { return std::fabs(d[x]) > std::fabs(d[y]); });
  for (int64_t j = 0; j < n; ++j) values[j] = std::fabs(d[order[static_cast<size_t>(j)]]) / factor;
  if (!wanted) return info;
  for (int64_t j = 0; j < n; ++j) {
    const int32_t from = order[static_cast<size_t>(j)];
    const T sign = std::signbit(d[from]) ? T(-1) : T(1);
    for (int64_t i = 0; i < n; ++i) vt[j * n + i] = sign * vectors[from * wide + i];
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

template int32_t singular_values(int64_t, int64_t, float*, int64_t, float*, float*, int64_t, float*);
template int32_t singular_values(int64_t, int64_t, double*, int64_t, double*, double*, int64_t, double*);

}  // namespace weft::cpu
