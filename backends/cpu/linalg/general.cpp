#include <algorithm>
#include <limits>

#include "balance.hpp"
#include "batches.hpp"
#include "products.hpp"
#include "rotations.hpp"
#include "schur.hpp"
#include "spectral.hpp"

namespace weft::cpu {
namespace {

/// a = Q H Qᴴ, H with one diagonal below its own, for the rows and columns first … last of a [n, n]; reflections become
/// the rows of v; row k is nonzero from k + 1 to last only. The update by one reflection and the products with the next
/// are one pass.
template <class T>
void reduce(int64_t n, T* a, int64_t stride, int64_t first, int64_t last, T* v, int64_t v_stride, T* tau) {
  const Workspace memory(static_cast<size_t>(6 * n) * sizeof(T));
  T *w = memory.as<T>(), *z = w + n, *zeros = z + n, *sums = zeros + n, *products = sums + n,
    *conjugates = products + n;
  std::fill_n(w, 6 * n, T(0));
  const T* u = zeros;  // of the reflection before
  const int64_t rows = last + 1;
  for (int64_t k = first; k < last; ++k) {
    for (int64_t i = 0; i < rows; ++i) {
      T& x = a[i * stride + k];
      x = x - u[i] * w[k] - z[i] * conjugates[k];
    }
    const int64_t at = k + 1, rest = n - at;
    T* x = v + k * v_stride;
    std::fill_n(x, n, T(0));
    for (int64_t i = at; i <= last; ++i) x[i] = a[i * stride + k];
    const Reflection<T> h = make_reflection(last - k, x + at);
    tau[k] = h.tau;
    a[at * stride + k] = T(h.beta);
    for (int64_t i = at + 1; i <= last; ++i) a[i * stride + k] = T(0);
    std::fill_n(sums, n, T(0));
    update_both(rows, rest, a + at, stride, u, w + at, z, conjugates + at, x, sums + at, x + at, products);
    // Hᴴ a H = a - x wᵀ - z xᴴ
    std::copy_n(x, n, conjugates);
    conjugate_all(n, conjugates);
    const T both = conjugate(h.tau) * h.tau * inner(last - k, x + at, products + at);
    for (int64_t j = at; j < n; ++j) w[j] = conjugate(h.tau) * sums[j] - both * conjugates[j];
    for (int64_t i = 0; i < rows; ++i) z[i] = h.tau * products[i];
    u = x;
  }
  for (int64_t i = 0; first < last && i < rows; ++i) {
    T* row = a + i * stride;
    for (int64_t j = last; j < n; ++j) row[j] = row[j] - u[i] * w[j] - z[i] * conjugates[j];
  }
}

/// Solves with a quasi-triangular t; X is T, or complex for conjugate eigenvalues of a real t.
template <class T, class X>
class BackSubstitution {
  using R = Real<T>;

 public:
  BackSubstitution(int64_t n, const T* t, int64_t stride) : n_(n), t_(t), stride_(stride) {}

  /// Replaces x [last + 1], with elements set from `first` on, by a solution of (t - value) x = 0. Divisors near 0 are
  /// replaced by `least`, and x is scaled if it would overflow.
  void solve(int64_t first, int64_t last, X value, R least, X* x) const {
    std::fill_n(x, first, X(0));
    for (int64_t i = first - 1; i >= 0; --i) {
      const bool pair = parts<T> == 1 && i > 0 && t_[i * stride_ + i - 1] != T(0);
      if (pair) {
        solve_pair(--i, last, value, least, x);
        keep(i, last, x);
      } else {
        X divisor = X(t_[i * stride_ + i]) - value;
        if (size_of(divisor) < least) divisor = X(least);
        x[i] = quotient(-row(i, i + 1, last, x), divisor, last, x, i);
      }
      keep(i, last, x);
    }
  }

 private:
  static constexpr R large = sizeof(R) == 8 ? R(1e150) : R(1e15);

  X row(int64_t i, int64_t from, int64_t last, const X* x) const {
    const T* line = t_ + i * stride_;
    if constexpr (parts<T> == parts<X>) {
      return dot(last + 1 - from, line + from, x + from);
    } else {
      X sum(0);
      for (int64_t j = from; j <= last; ++j) sum = sum + times_real(line[j], x[j]);
      return sum;
    }
  }
  /// b / divisor, of which, and of the x behind it, the scale is free.
  X quotient(X b, X divisor, int64_t last, X* x, int64_t i) const {
    const R size = size_of(b);
    if (size > size_of(divisor) * large) {
      shrink(size, i + 1, last, x);
      b = over_real(b, size);
    }
    return b / divisor;
  }
  /// Both rows of a block of a real t at once.
  void solve_pair(int64_t i, int64_t last, X value, R least, X* x) const {
    X upper = -row(i, i + 2, last, x), lower = -row(i + 1, i + 2, last, x);
    X a = X(at(i, i)) - value, d = X(at(i + 1, i + 1)) - value;
    const X b(at(i, i + 1)), c(at(i + 1, i));
    // By elimination, the larger element of the first column first.
    const bool turned = size_of(c) > size_of(a);
    const X top = turned ? c : a, right = turned ? d : b, low = turned ? a : c, corner = turned ? b : d;
    if (turned) std::swap(upper, lower);
    const X factor = size_of(top) < least ? X(0) : low / top;
    X pivot = corner - factor * right;
    if (size_of(pivot) < least) pivot = X(least);
    const X left = lower - factor * upper;
    const R size = std::max(size_of(left), size_of(upper));
    if (size > std::min(size_of(pivot), std::max(size_of(top), least)) * large) {
      shrink(size, i + 2, last, x);
      upper = over_real(upper, size);
      x[i + 1] = over_real(left, size) / pivot;
    } else {
      x[i + 1] = left / pivot;
    }
    x[i] = (upper - right * x[i + 1]) / (size_of(top) < least ? X(least) : top);
  }
  T at(int64_t i, int64_t j) const { return t_[i * stride_ + j]; }
  /// Scales x where it grew large.
  void keep(int64_t i, int64_t last, X* x) const {
    const R size = std::max(size_of(x[i]), i + 1 <= last ? size_of(x[i + 1]) : R(0));
    if (size > large) shrink(size, i, last, x);
  }
  static void shrink(R size, int64_t from, int64_t last, X* x) {
    for (int64_t j = from; j <= last; ++j) x[j] = over_real(x[j], size);
  }

  int64_t n_;
  const T* t_;
  int64_t stride_;
};

/// Rows of x, of eigenvectors of t: pairs of conjugate ones as their real and their imaginary part.
template <class T>
void triangular_vectors(int64_t n, const T* t, int64_t stride, T* x, int64_t x_stride) {
  using R = Real<T>;
  constexpr R epsilon = std::numeric_limits<R>::epsilon();
  const R smallest = std::numeric_limits<R>::min() * (static_cast<R>(n) / epsilon);
  const Workspace memory(static_cast<size_t>(n) * sizeof(Complex<R>));
  auto* pair = memory.as<Complex<R>>();
  for (int64_t j = 0; j < n; ++j) {
    T* to = x + j * x_stride;
    std::fill_n(to, n, T(0));
    if constexpr (parts<T> == 1) {
      if (j + 1 < n && t[(j + 1) * stride + j] != 0) {  // the block has equal elements on its diagonal
        const R b = t[j * stride + j + 1], c = t[(j + 1) * stride + j],
                im = std::sqrt(std::fabs(b)) * std::sqrt(std::fabs(c));
        const Complex<R> value{t[j * stride + j], im};
        if (std::fabs(b) >= std::fabs(c)) pair[j] = {1, 0}, pair[j + 1] = {0, im / b};
        else pair[j] = {-im / c, 0}, pair[j + 1] = {0, 1};
        BackSubstitution<T, Complex<R>>(n, t, stride)
            .solve(j, j + 1, value, std::max(epsilon * size_of(value), smallest), pair);
        std::fill_n(to + x_stride, n, T(0));
        for (int64_t i = 0; i <= j + 1; ++i) to[i] = pair[i].re, to[x_stride + i] = pair[i].im;
        ++j;
        continue;
      }
    }
    const T value = t[j * stride + j];
    to[j] = T(1);
    BackSubstitution<T, T>(n, t, stride).solve(j, j, value, std::max(epsilon * size_of(value), smallest), to);
  }
}

/// Of length 1, the largest element real.
template <class R>
void normalize(int64_t n, Complex<R>* x) {
  R most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, size_of(x[i]));
  if (!(most > 0)) return;
  R squares = 0, largest = -1;
  int64_t place = 0;
  for (int64_t i = 0; i < n; ++i) {
    x[i] = over_real(x[i], most);
    const R square = x[i].re * x[i].re + x[i].im * x[i].im;
    squares += square;
    if (square > largest) largest = square, place = i;
  }
  const R length = std::sqrt(squares);
  if (x[place].im == 0) {
    for (int64_t i = 0; i < n; ++i) x[i] = over_real(x[i], length);
    return;
  }
  const Complex<R> turn = over_real(conj(x[place]), std::sqrt(largest) * length);
  for (int64_t i = 0; i < n; ++i) x[i] = turn * x[i];
  x[place].im = 0;
}

/// Values from the diagonal of Schur's form.
template <class T>
void read_values(int64_t n, const T* t, int64_t stride, Real<T> factor, Complex<Real<T>>* values) {
  using R = Real<T>;
  for (int64_t j = 0; j < n; ++j) {
    const T here = t[j * stride + j];
    values[j] = {real_part(here) / factor, imaginary_part(here) / factor};
    if constexpr (parts<T> == 1) {
      if (j + 1 == n || t[(j + 1) * stride + j] == 0) continue;
      const R im = std::sqrt(std::fabs(t[j * stride + j + 1])) * std::sqrt(std::fabs(t[(j + 1) * stride + j]));
      values[j].im = im / factor;
      values[j + 1] = conj(values[j]);
      ++j;
    }
  }
}

/// The rows of y, vectors of the balanced matrix, to the columns of `vectors`.
template <class T>
void write_vectors(int64_t n, const Balance<T>& balanced, const T* y, int64_t stride, const Complex<Real<T>>* values,
                   Complex<Real<T>>* vectors) {
  using Z = Complex<Real<T>>;
  const Workspace memory(static_cast<size_t>(n * n) * sizeof(Z));
  Z* rows = memory.as<Z>();
  for (int64_t j = 0; j < n; ++j) {
    const T* row = y + j * stride;
    const bool pair = parts<T> == 1 && values[j].im != 0;
    Z* to = rows + j * n;
    for (int64_t i = 0; i < n; ++i) {
      to[i] = {real_part(row[i]), pair ? real_part(row[stride + i]) : imaginary_part(row[i])};
    }
    unbalance(n, balanced, to);
    normalize(n, to);
    if (!pair) continue;
    std::copy_n(to, n, to + n);
    conjugate_all(n, to + n);
    ++j;
  }
  transpose(n, n, rows, n, vectors, n);
}

}  // namespace

template <class T>
int32_t general_eigen(int64_t n, T* a, int64_t stride, Complex<Real<T>>* values, Complex<Real<T>>* vectors) {
  using R = Real<T>;
  if (n == 0) return 0;
  const R factor = safe_factor(n, n, a, stride);
  if (factor == 0) return not_finite;
  scale_rows(n, n, factor, a, stride);
  const bool wanted = vectors != nullptr;
  const int64_t wide = padded(n), square = n * wide;
  const Workspace memory(static_cast<size_t>((wanted ? 3 : 1) * square + 2 * n) * sizeof(T));
  T *v = memory.as<T>(), *tau = v + square, *z = tau + 2 * n, *y = z + square;
  const Balance<T> balanced = balance(n, a, stride, reals(tau + n));
  const int64_t first = balanced.first, last = balanced.last;
  reduce(n, a, stride, first, last, v, wide, tau);
  if (wanted) {
    std::fill_n(z, square, T(0));
    for (int64_t i = 0; i < n; ++i) z[i * wide + i] = T(1);
    apply_reflections(
        Reflections<T>{std::max<int64_t>(last - first, 0), n, first + 1, v + first * wide, wide, tau + first}, true, n,
        z, wide, true);
  }
  const int32_t info = Schur<T>(n, a, stride, wanted ? z : nullptr, wide).run(first, last);
  read_values(n, a, stride, factor, values);
  if (info != 0 || !wanted) return info;
  triangular_vectors(n, a, stride, v, wide);
  // Row j of the product is the sum of the rows of z, columns of Q, times x_j.
  multiply(n, n, n, Matrix<T>{v, wide, 1}, Matrix<T>{z, wide, 1}, Conjugated::no, {}, y, wide);
  write_vectors(n, balanced, y, wide, values, vectors);
  return 0;
}

template int32_t general_eigen(int64_t, float*, int64_t, complex64*, complex64*);
template int32_t general_eigen(int64_t, double*, int64_t, complex128*, complex128*);
template int32_t general_eigen(int64_t, complex64*, int64_t, complex64*, complex64*);
template int32_t general_eigen(int64_t, complex128*, int64_t, complex128*, complex128*);

}  // namespace weft::cpu
