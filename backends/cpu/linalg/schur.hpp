// QR steps on Hessenberg matrices until they are triangular: single shifts for complex numbers, Francis' double ones
// for real numbers, where pairs of conjugate eigenvalues stay as blocks of two. T is real or complex.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "reflectors.hpp"
#include "vectors.hpp"

namespace weft::cpu {

/// √z
template <class R>
Complex<R> root_of(Complex<R> z) {
  const R size = magnitude_of(z);
  if (size == 0) return z;
  const R re = std::sqrt((size + std::fabs(z.re)) / 2), im = z.im / (2 * re);
  return z.re >= 0 ? Complex<R>{re, im} : Complex<R>{std::fabs(im), std::copysign(re, z.im)};
}

/// Two eigenvalues that a step is shifted by; of a complex matrix the first one counts.
template <class T>
struct Shifts {
  Complex<Real<T>> first, second;
};

/// The eigenvalues of [[a, b], [c, d]]; real ones are both the one that is nearer to d.
template <class R>
Shifts<R> shifts_of(R a, R b, R c, R d) {
  const R size = std::fabs(a) + std::fabs(b) + std::fabs(c) + std::fabs(d);
  if (size == 0) return {{0, 0}, {0, 0}};
  a /= size, b /= size, c /= size, d /= size;
  const R middle = (a + d) / 2, product = (a - middle) * (d - middle) - b * c, root = std::sqrt(std::fabs(product));
  if (product >= 0) return {{middle * size, root * size}, {middle * size, -root * size}};
  const R high = middle + root, low = middle - root, near = std::fabs(high - d) <= std::fabs(low - d) ? high : low;
  return {{near * size, 0}, {near * size, 0}};
}
/// The eigenvalue that is nearer to d (Wilkinson's shift).
template <class R>
Shifts<Complex<R>> shifts_of(Complex<R> a, Complex<R> b, Complex<R> c, Complex<R> d) {
  using Z = Complex<R>;
  const Z u = root_of(b) * root_of(c);
  R size = size_of(u);
  if (size == 0) return {d, d};
  const Z x = times_real(R(0.5), a - d);
  size = std::max(size, size_of(x));
  const Z xs = over_real(x, size), us = over_real(u, size);
  Z ys = root_of(xs * xs + us * us);
  if (xs.re * ys.re + xs.im * ys.im < 0) ys = -ys;
  const Z t = d - u * (us / (xs + ys));
  return {t, t};
}

/// A rotation that makes [[a, b], [c, d]] triangular, or equal on its diagonal where its eigenvalues are conjugate
/// (LAPACK's dlanv2).
template <class R>
struct Standard {
  R a, b, c, d, cs, sn;
};
template <class R>
Standard<R> standard_of(R a, R b, R c, R d) {
  constexpr R epsilon = std::numeric_limits<R>::epsilon();
  const auto sign = [](R x) { return std::copysign(R(1), x); };
  if (c == 0) return {a, b, c, d, 1, 0};
  if (b == 0) return {d, -c, 0, a, 0, 1};
  if (a == d && sign(b) != sign(c)) return {a, b, c, d, 1, 0};
  const R apart = a - d, p = apart / 2, most = std::max(std::fabs(b), std::fabs(c)),
          least = std::min(std::fabs(b), std::fabs(c)) * sign(b) * sign(c), size = std::max(std::fabs(p), most);
  const R z = p / size * p + most / size * least;
  if (z >= 4 * epsilon * size) {  // real eigenvalues
    const R root = p + std::copysign(std::sqrt(size) * std::sqrt(z), p), tau = std::hypot(c, root);
    return {d + root, b - c, 0, d - most / root * least, root / tau, c / tau};
  }
  // Conjugate ones, or real ones that are nearly equal: the diagonal is made equal.
  R sigma = b + c, half = p, difference = apart, scale = std::max(std::fabs(apart), std::fabs(sigma));
  difference /= scale, sigma /= scale, half = difference / 2;
  const R tau = std::hypot(sigma, difference);
  R cs = std::sqrt((1 + std::fabs(sigma) / tau) / 2), sn = -(half / (tau * cs)) * sign(sigma);
  const R aa = a * cs + b * sn, bb = -a * sn + b * cs, cc = c * cs + d * sn, dd = -c * sn + d * cs;
  a = aa * cs + cc * sn, b = bb * cs + dd * sn, c = -aa * sn + cc * cs, d = -bb * sn + dd * cs;
  a = d = (a + d) / 2;
  if (c == 0 || b == 0 || sign(b) != sign(c)) {
    if (c != 0 && b == 0) return {d, -c, 0, a, -sn, cs};
    return {a, b, c, d, cs, sn};
  }
  // Real after all.
  const R root_b = std::sqrt(std::fabs(b)), root_c = std::sqrt(std::fabs(c)), q = std::copysign(root_b * root_c, c);
  const R length = 1 / std::sqrt(std::fabs(b + c)), c1 = root_b * length, s1 = root_c * length;
  return {a + q, b - c, 0, d - q, cs * c1 - sn * s1, cs * s1 + sn * c1};
}

/// h [n, n], of which rows and columns first … last are Hessenberg and the rest is triangular, becomes triangular; with
/// z [n, n] it becomes all of Schur's form, and the rows of z, columns of the factor that is not h, are rotated alike;
/// without it only the diagonal blocks mean something.
template <class T>
class Schur {
  using R = Real<T>;

 public:
  Schur(int64_t n, T* h, int64_t stride, T* z, int64_t z_stride)
      : n_(n), h_(h), stride_(stride), z_(z), z_stride_(z_stride) {}

  /// How many eigenvalues did not converge.
  int32_t run(int64_t first, int64_t last) {
    first_ = first;
    last_ = last;
    int64_t budget = 30 * std::max<int64_t>(10, last - first + 1);
    for (int64_t i = last; i >= first;) {
      int64_t l = first, steps = 0;
      while (true) {
        l = start_of_block(l, i);
        if (l > first) at(l, l - 1) = T(0);
        if (l >= i + 1 - order) break;
        if (budget-- <= 0) return static_cast<int32_t>(i - first + 1);
        ++steps;
        step(l, i, steps);
      }
      if constexpr (order == 2) {
        if (l == i - 1) split_pair(i);
      }
      i = l - 1;
    }
    return 0;
  }

 private:
  /// Shifts at once, rows of a block that needs no more steps, and less 1 of a reflection.
  static constexpr int64_t order = parts<T> == 1 ? 2 : 1;
  static constexpr R epsilon = std::numeric_limits<R>::epsilon();

  T& at(int64_t i, int64_t j) const { return h_[i * stride_ + j]; }
  R size(int64_t i, int64_t j) const { return size_of(at(i, j)); }
  R least() const { return std::numeric_limits<R>::min() * (static_cast<R>(n_) / epsilon); }

  /// Whether the element left of (k, k) is negligible (Ahues and Tisseur 1997).
  bool splits(int64_t k) const {
    const R below = size(k, k - 1);
    if (below <= least()) return true;
    R around = size(k - 1, k - 1) + size(k, k);
    if (around == 0) {
      if (k - 2 >= first_) around += size(k - 1, k - 2);
      if (k + 1 <= last_) around += size(k + 1, k);
    }
    if (below > epsilon * around) return false;
    const R beside = size(k - 1, k), apart = size_of(at(k - 1, k - 1) - at(k, k)), end = size(k, k);
    const R ab = std::max(below, beside), ba = std::min(below, beside), aa = std::max(end, apart),
            bb = std::min(end, apart), sum = aa + ab;
    return ba * (ab / sum) <= std::max(least(), epsilon * (bb * (aa / sum)));
  }
  int64_t start_of_block(int64_t l, int64_t i) const {
    int64_t k = i;
    while (k > l && !splits(k)) --k;
    return k;
  }

  Shifts<T> shifts(int64_t l, int64_t i, int64_t steps) const {
    if (steps % 10 != 0) return shifts_of(at(i - 1, i - 1), at(i - 1, i), at(i, i - 1), at(i, i));
    // Others once in a while, since some matrices make the usual ones go round in circles.
    const bool low = steps % 20 == 0;
    if constexpr (order == 1) {
      const T t = at(low ? i : l, low ? i : l) + T(R(0.75) * (low ? size(i, i - 1) : size(l + 1, l)));
      return {t, t};
    } else {
      const R s = low ? size(i, i - 1) + size(i - 1, i - 2) : size(l + 1, l) + size(l + 2, l + 1);
      const R h = R(0.75) * s + (low ? at(i, i) : at(l, l));
      return shifts_of(h, R(-0.4375) * s, s, h);
    }
  }

  /// The first column of the shifted product from row m on, of any scale.
  void first_column(const Shifts<T>& shifts, int64_t m, T* v) const {
    if constexpr (order == 1) {
      const T apart = at(m, m) - shifts.first;
      const R s = size_of(apart) + size(m + 1, m);
      v[0] = over_real(apart, s);
      v[1] = over_real(at(m + 1, m), s);
    } else {
      const R re = shifts.first.re, im = shifts.first.im, re2 = shifts.second.re, im2 = shifts.second.im;
      const R s = std::fabs(at(m, m) - re2) + std::fabs(im2) + size(m + 1, m), below = at(m + 1, m) / s;
      v[0] = below * at(m, m + 1) + (at(m, m) - re) * ((at(m, m) - re2) / s) - im * (im2 / s);
      v[1] = below * (at(m, m) + at(m + 1, m + 1) - re - re2);
      v[2] = below * at(m + 2, m + 1);
      const R sum = std::fabs(v[0]) + std::fabs(v[1]) + std::fabs(v[2]);
      for (int k = 0; k < 3; ++k) v[k] /= sum;
    }
  }

  void step(int64_t l, int64_t i, int64_t steps) {
    const Shifts<T> s = shifts(l, i, steps);
    // The step may start below, where two elements below the diagonal are small one after the other.
    T v[3];
    int64_t m = i - order;
    for (;; --m) {
      first_column(s, m, v);
      if (m == l) break;
      R rest = size_of(v[1]);
      if constexpr (order == 2) rest += size_of(v[2]);
      const R around = size(m - 1, m - 1) + size(m, m) + size(m + 1, m + 1);
      if (size(m, m - 1) * rest <= epsilon * size_of(v[0]) * around) break;
    }
    for (int64_t k = m; k < i; ++k) {
      const int64_t count = std::min(order + 1, i - k + 1);
      if (k > m) {
        for (int64_t j = 0; j < count; ++j) v[j] = at(k + j, k - 1);
      }
      const Reflection<T> reflection = make_reflection(count, v);
      if (k > m) {
        at(k, k - 1) = T(reflection.beta);
        for (int64_t j = 1; j < count; ++j) at(k + j, k - 1) = T(0);
      } else if (m > l) {
        at(k, k - 1) = at(k, k - 1) - conjugate(reflection.tau) * at(k, k - 1);
      }
      reflect(l, i, k, count, v, reflection.tau);
    }
  }

  /// h becomes Hᴴ h H for a reflection of rows and columns k … k + count - 1.
  void reflect(int64_t l, int64_t i, int64_t k, int64_t count, T* v, T tau) {
    const int64_t end = z_ != nullptr ? n_ : i + 1, top = z_ != nullptr ? 0 : l;
    reflect_few_rows(count, end - k, &at(k, k), stride_, v, conjugate(tau));
    const int64_t bottom = std::min(k + order + 1, i);
    reflect_few_columns(bottom - top + 1, count, &at(top, k), stride_, v, tau);
    if (z_ == nullptr) return;
    conjugate_all(count, v);
    reflect_few_rows(count, n_, z_ + k * z_stride_, z_stride_, v, tau);
  }

  /// The block of rows i - 1 and i in its standard form.
  void split_pair(int64_t i) {
    const int64_t k = i - 1;
    const Standard<R> s = standard_of(at(k, k), at(k, i), at(i, k), at(i, i));
    at(k, k) = s.a, at(k, i) = s.b, at(i, k) = s.c, at(i, i) = s.d;
    if (z_ == nullptr) return;
    const auto turn = [&](T& x, T& y) {
      const T old = x;
      x = s.cs * x + s.sn * y;
      y = s.cs * y - s.sn * old;
    };
    for (int64_t j = i + 1; j < n_; ++j) turn(at(k, j), at(i, j));
    for (int64_t j = 0; j < k; ++j) turn(at(j, k), at(j, i));
    for (int64_t j = 0; j < n_; ++j) turn(z_[k * z_stride_ + j], z_[i * z_stride_ + j]);
  }

  int64_t n_;
  T* h_;
  int64_t stride_;
  T* z_;
  int64_t z_stride_, first_ = 0, last_ = -1;
};

}  // namespace weft::cpu
