#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "reflectors.hpp"
#include "rotations.hpp"
#include "spectral.hpp"

namespace weft::cpu {
namespace {

/// a = Q T Qᴴ from the lower triangle (column i is row i here), by reflections with the rows of v [n - 1, n] as
/// vectors: row j is 0 before j + 1. d and e are T's diagonals, which are real. The update by one reflection and the
/// product with the next are one pass.
template <class T>
void reduce(int64_t n, T* a, int64_t stride, Real<T>* d, Real<T>* e, T* v, int64_t v_stride, T* tau) {
  const Workspace memory(static_cast<size_t>(3 * n) * sizeof(T));
  T *y = memory.as<T>(), *zeros = y + n, *w = zeros + n;
  std::fill_n(zeros, n, T(0));
  std::fill_n(w, n, T(0));
  const T* u = zeros;  // of the reflection before, from its element k on
  for (int64_t k = 0; k < n; ++k) {
    T* row = a + k * stride;
    // Column k as the reflection before leaves it.
    const T uk = conjugate(u[k]), wk = conjugate(w[k]);
    for (int64_t j = k; j < n; ++j) row[j] = row[j] - (uk * w[j] + wk * u[j]);
    d[k] = real_part(row[k]);
    if (k + 1 == n) break;
    T* x = v + k * v_stride;
    std::fill_n(x, k + 1, T(0));
    std::copy_n(row + k + 1, n - k - 1, x + k + 1);
    const Reflection<T> h = make_reflection(n - k - 1, x + k + 1);
    tau[k] = h.tau;
    e[k] = h.beta;
    const int64_t at = k + 1, rest = n - at;
    std::fill_n(y + at, rest, T(0));
    update_and_multiply(rest, a + at * stride + at, stride, u + at, w + at, x + at, y + at);
    // w = tau y - x (|tau|² yᴴ x) / 2, of which the product is real.
    const T half = over_real(conjugate(h.tau) * h.tau * inner(rest, y + at, x + at), Real<T>(2));
    for (int64_t j = at; j < n; ++j) w[j] = h.tau * y[j] - half * x[j];
    u = x;
  }
}

template <class T>
struct Pair {
  T larger, smaller, c, s;  ///< by magnitude; (c, s) is the vector of `larger`
};
/// Eigenvalues of [[a, b], [b, c]].
template <class T>
Pair<T> eigen_of_pair(T a, T b, T c) {
  const T sum = a + c, difference = a - c, across = std::fabs(b + b), apart = std::fabs(difference);
  const T large = std::fabs(a) > std::fabs(c) ? a : c, small = std::fabs(a) > std::fabs(c) ? c : a;
  const T root = std::hypot(apart, across);
  Pair<T> p;
  const bool negative = sum < 0;
  if (sum == 0) {
    p.larger = root / 2;
    p.smaller = -root / 2;
  } else {
    p.larger = (negative ? sum - root : sum + root) / 2;
    p.smaller = (large / p.larger) * small - (b / p.larger) * b;
  }
  const bool same = (difference >= 0) != negative;
  const T cs = difference >= 0 ? difference + root : difference - root;
  if (std::fabs(cs) > across) {
    const T ct = -(b + b) / cs;
    p.s = 1 / std::sqrt(1 + ct * ct);
    p.c = ct * p.s;
  } else if (across == 0) {
    p.c = 1;
    p.s = 0;
  } else {
    const T tn = -cs / (b + b);
    p.c = 1 / std::sqrt(1 + tn * tn);
    p.s = tn * p.c;
  }
  if (same) {
    const T t = p.c;
    p.c = -p.s;
    p.s = t;
  }
  return p;
}

/// Steps on a tridiagonal matrix until it is diagonal; rotations go to the rows of `vectors`.
template <class T>
class Tridiagonal {
 public:
  Tridiagonal(int64_t n, T* d, T* e, Rotations<T>& vectors) : n_(n), d_(d), e_(e), vectors_(vectors) {}

  int32_t run() {
    int64_t left = 30 * n_;
    for (int64_t first = 0; first < n_;) {
      int64_t last = first;
      while (last + 1 < n_ && !splits(last)) ++last;
      if (last + 1 < n_) e_[last] = 0;
      // From the end with the smaller element to the larger one, so that graded matrices keep their small values.
      if (last > first) {
        if (std::fabs(d_[last]) < std::fabs(d_[first])) upward(last, first, left);
        else downward(first, last, left);
      }
      if (left <= 0) break;
      first = last + 1;
    }
    return static_cast<int32_t>(n_ - 1 - std::count(e_, e_ + n_ - 1, T(0)));
  }

 private:
  static constexpr T epsilon = std::numeric_limits<T>::epsilon() / 2;
  bool splits(int64_t i) const {
    return std::fabs(e_[i]) <= std::sqrt(std::fabs(d_[i])) * std::sqrt(std::fabs(d_[i + 1])) * epsilon;
  }
  bool negligible(int64_t i) const {
    return e_[i] * e_[i] <= epsilon * epsilon * std::fabs(d_[i]) * std::fabs(d_[i + 1]) + std::numeric_limits<T>::min();
  }
  static T shift_of(T next, T p, T e, T far) {
    const T g = (next - p) / (2 * e);
    return far - p + e / (g + std::copysign(std::hypot(g, T(1)), g));
  }

  /// QL steps: values are found at l, from above.
  void downward(int64_t l, int64_t end, int64_t& left) {
    while (l <= end) {
      int64_t m = l;
      while (m < end && !negligible(m)) ++m;
      if (m < end) e_[m] = 0;
      if (m == l) {
        ++l;
      } else if (m == l + 1) {
        const Pair<T> pair = eigen_of_pair(d_[l], e_[l], d_[l + 1]);
        vectors_.begin(l, 1, true);
        vectors_.set(0, pair.c, pair.s);
        d_[l] = pair.larger;
        d_[l + 1] = pair.smaller;
        e_[l] = 0;
        l += 2;
      } else {
        if (left-- <= 0) return;
        T g = shift_of(d_[l + 1], d_[l], e_[l], d_[m]), s = 1, c = 1, p = 0;
        vectors_.begin(l, m - l, true);
        for (int64_t i = m - 1; i >= l; --i) {
          const T f = s * e_[i], b = c * e_[i];
          const Rotation<T> turn = rotation_of(g, f);
          c = turn.c, s = turn.s;
          if (i != m - 1) e_[i + 1] = turn.r;
          g = d_[i + 1] - p;
          const T r = (d_[i] - g) * s + 2 * c * b;
          p = s * r;
          d_[i + 1] = g + p;
          g = c * r - b;
          vectors_.set(i - l, c, -s);
        }
        d_[l] -= p;
        e_[l] = g;
      }
    }
  }
  /// QR steps: values are found at l, from below.
  void upward(int64_t l, int64_t end, int64_t& left) {
    while (l >= end) {
      int64_t m = l;
      while (m > end && !negligible(m - 1)) --m;
      if (m > end) e_[m - 1] = 0;
      if (m == l) {
        --l;
      } else if (m == l - 1) {
        const Pair<T> pair = eigen_of_pair(d_[l - 1], e_[l - 1], d_[l]);
        vectors_.begin(l - 1, 1, false);
        vectors_.set(0, pair.c, pair.s);
        d_[l - 1] = pair.larger;
        d_[l] = pair.smaller;
        e_[l - 1] = 0;
        l -= 2;
      } else {
        if (left-- <= 0) return;
        T g = shift_of(d_[l - 1], d_[l], e_[l - 1], d_[m]), s = 1, c = 1, p = 0;
        vectors_.begin(m, l - m, false);
        for (int64_t i = m; i < l; ++i) {
          const T f = s * e_[i], b = c * e_[i];
          const Rotation<T> turn = rotation_of(g, f);
          c = turn.c, s = turn.s;
          if (i != m) e_[i - 1] = turn.r;
          g = d_[i] - p;
          const T r = (d_[i + 1] - g) * s + 2 * c * b;
          p = s * r;
          d_[i] = g + p;
          g = c * r - b;
          vectors_.set(i - m, c, s);
        }
        d_[l] -= p;
        e_[l - 1] = g;
      }
    }
  }

  int64_t n_;
  T *d_, *e_;
  Rotations<T>& vectors_;
};

}  // namespace

template <class T>
int32_t symmetric_eigen(int64_t n, T* a, int64_t stride, Real<T>* values, T* vectors) {
  using R = Real<T>;
  if (n == 0) return 0;
  for (int64_t i = 0; i < n; ++i) {  // so that what is not read counts for nothing
    for (int64_t j = 0; j < i; ++j) a[i * stride + j] = T(0);
    a[i * stride + i] = T(real_part(a[i * stride + i]));
  }
  const R factor = safe_factor(n, n, a, stride);
  if (factor == 0) return not_finite;
  scale_rows(n, n, factor, a, stride);
  const int64_t wide = padded(n);
  const Workspace memory(static_cast<size_t>((vectors != nullptr ? 2 : 1) * n * wide + 3 * n) * sizeof(T));
  T *v = memory.as<T>(), *tau = v + n * wide, *qt = tau + 3 * n;
  R *d = reals(tau + n), *e = d + n;
  reduce(n, a, stride, d, e, v, wide, tau);
  if (vectors != nullptr) {
    std::fill_n(qt, n * wide, T(0));
    for (int64_t i = 0; i < n; ++i) qt[i * wide + i] = T(1);
    apply_reflections(Reflections<T>{n - 1, n, 1, v, wide, tau}, true, n, qt, wide, true);
  }
  Rotations<R> turns(n, (n + 15) / 16 * 16 * parts<T>, vectors != nullptr ? reals(qt) : nullptr, wide * parts<T>);
  const int32_t info = Tridiagonal<R>(n, d, e, turns).run();
  turns.flush();
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t x, int32_t y) { return d[x] < d[y]; });
  for (int64_t j = 0; j < n; ++j) {
    const int32_t from = order[static_cast<size_t>(j)];
    values[j] = d[from] / factor;
    if (vectors == nullptr) continue;
    const T* row = qt + from * wide;
    for (int64_t i = 0; i < n; ++i) vectors[i * n + j] = row[i];
  }
  return info;
}

template int32_t symmetric_eigen(int64_t, float*, int64_t, float*, float*);
template int32_t symmetric_eigen(int64_t, double*, int64_t, double*, double*);
template int32_t symmetric_eigen(int64_t, complex64*, int64_t, float*, complex64*);
template int32_t symmetric_eigen(int64_t, complex128*, int64_t, double*, complex128*);

}  // namespace weft::cpu
