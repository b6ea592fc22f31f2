// Singular values of upper bidiagonal matrices. T is float or double.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "rotations.hpp"

namespace weft::cpu {

/// [[f, g], [0, h]] = [[cl, -sl], [sl, cl]] · diag(larger, smaller) · [[cr, sr], [-sr, cr]], accurate to the last bits.
template <class T>
struct Triangle {
  T larger, smaller, cl, sl, cr, sr;
};
template <class T>
Triangle<T> singular_of_triangle(T f, T g, T h) {
  const auto sign = [](T x) { return std::copysign(T(1), x); };
  const bool swap = std::fabs(h) > std::fabs(f);
  const T ft = swap ? h : f, ht = swap ? f : h, fa = std::fabs(ft), ha = std::fabs(ht), ga = std::fabs(g);
  T larger = fa, smaller = ha, cl = 1, cr = 1, sl = 0, sr = 0;
  bool by_g = false;
  if (ga != 0) {
    by_g = ga > fa;
    if (by_g && fa / ga < std::numeric_limits<T>::epsilon() / 2) {
      larger = ga;
      smaller = ha > 1 ? fa / (ga / ha) : fa / ga * ha;
      sl = ht / g;
      sr = 1;
      cr = ft / g;
    } else {
      const T d = fa - ha, q = g / ft, l = d == fa ? T(1) : d / fa, t = 2 - l, qq = q * q;
      const T s = std::sqrt(t * t + qq), r = l == 0 ? std::fabs(q) : std::sqrt(l * l + qq), a = (s + r) / 2;
      smaller = ha / a;
      larger = fa * a;
      T tan;
      if (qq == 0) tan = l == 0 ? std::copysign(T(2), ft) * sign(g) : g / std::copysign(d, ft) + q / t;
      else tan = (q / (s + t) + q / (r + l)) * (1 + a);
      const T length = std::sqrt(tan * tan + 4);
      cr = 2 / length;
      sr = tan / length;
      cl = (cr + sr * q) / a;
      sl = ht / ft * sr / a;
    }
  }
  Triangle<T> out = swap ? Triangle<T>{larger, smaller, sr, cr, sl, cl} : Triangle<T>{larger, smaller, cl, sl, cr, sr};
  T turned;
  if (by_g) turned = sign(out.sr) * sign(out.cl) * sign(g);
  else if (swap) turned = sign(out.sr) * sign(out.sl) * sign(h);
  else turned = sign(out.cr) * sign(out.cl) * sign(f);
  out.larger = std::copysign(larger, turned);
  out.smaller = std::copysign(smaller, turned * sign(f) * sign(h));
  return out;
}

/// The smaller singular value of [[f, g], [0, h]].
template <class T>
T smaller_of_triangle(T f, T g, T h) {
  const T fa = std::fabs(f), ga = std::fabs(g), ha = std::fabs(h), least = std::min(fa, ha), most = std::max(fa, ha);
  if (least == 0) return 0;
  const T as = 1 + least / most, at = (most - least) / most;
  if (ga < most) {
    const T au = ga / most * (ga / most);
    return least * (2 / (std::sqrt(as * as + au) + std::sqrt(at * at + au)));
  }
  const T au = most / ga;
  if (au == 0) return least * most / ga;
  const T c = 1 / (std::sqrt(1 + as * au * (as * au)) + std::sqrt(1 + at * au * (at * au)));
  return 2 * (least * c * au);
}

/// Makes d [n] the singular values, of any sign and in any order, of the matrix with the diagonals d and e [n - 1].
/// Rotations go to the rows of uᵀ and vᵀ.
template <class T>
class Bidiagonal {
 public:
  Bidiagonal(int64_t n, T* d, T* e, Rotations<T>& left, Rotations<T>& right)
      : d_(d), e_(e), left_(left), right_(right), n_(n) {}

  /// How many values did not converge.
  int32_t run() {
    threshold_ = smallest_kept();
    int64_t budget = 6 * n_ * n_;
    for (int64_t m = n_ - 1; m > 0;) {
      if (budget <= 0) return static_cast<int32_t>(n_ - 1 - std::count(e_, e_ + n_ - 1, T(0)));
      T most = std::fabs(d_[m]);
      int64_t l = m;
      while (l > 0 && std::fabs(e_[l - 1]) > threshold_) {
        --l;
        most = std::max({most, std::fabs(d_[l]), std::fabs(e_[l])});
      }
      if (l > 0) e_[l - 1] = 0;
      if (l == m) {
        --m;
      } else if (l + 1 == m) {
        solve_pair(l);
        m -= 2;
      } else {
        if (l > old_last_ || m < old_first_) down_ = std::fabs(d_[l]) >= std::fabs(d_[m]);
        T least;
        if (splits(l, m, least)) continue;
        old_first_ = l;
        old_last_ = m;
        const T shift = shift_of(l, m, least, most);
        budget -= m - l;
        if (shift == 0) down_ ? plain_down(l, m) : plain_up(l, m);
        else down_ ? shifted_down(l, m, shift) : shifted_up(l, m, shift);
      }
    }
    return 0;
  }

 private:
  static constexpr T epsilon = std::numeric_limits<T>::epsilon() / 2;
  static constexpr T tolerance = epsilon * (sizeof(T) == 8 ? T(90) : T(10));

  T smallest_kept() const {
    T least = std::fabs(d_[0]), mu = least;
    for (int64_t i = 1; i < n_ && least != 0; ++i) {
      mu = std::fabs(d_[i]) * (mu / (mu + std::fabs(e_[i - 1])));
      least = std::min(least, mu);
    }
    const T count = static_cast<T>(n_);
    return std::max(tolerance * (least / std::sqrt(count)), 6 * count * count * std::numeric_limits<T>::min());
  }

  void solve_pair(int64_t i) {
    const Triangle<T> t = singular_of_triangle(d_[i], e_[i], d_[i + 1]);
    d_[i] = t.larger;
    e_[i] = 0;
    d_[i + 1] = t.smaller;
    right_.begin(i, 1, false);
    right_.set(0, t.cr, t.sr);
    left_.begin(i, 1, false);
    left_.set(0, t.cl, t.sl);
  }

  /// Whether an element of e is negligible, by a bound that keeps small values accurate; it is 0 then. Else `least` is
  /// a lower bound of the singular values.
  bool splits(int64_t l, int64_t m, T& least) {
    if (down_ && std::fabs(e_[m - 1]) <= tolerance * std::fabs(d_[m])) return e_[m - 1] = 0, true;
    if (!down_ && std::fabs(e_[l]) <= tolerance * std::fabs(d_[l])) return e_[l] = 0, true;
    T mu = std::fabs(d_[down_ ? l : m]);
    least = mu;
    for (int64_t k = 0; k < m - l; ++k) {
      const int64_t i = down_ ? l + k : m - 1 - k;
      if (std::fabs(e_[i]) <= tolerance * mu) return e_[i] = 0, true;
      mu = std::fabs(d_[down_ ? i + 1 : i]) * (mu / (mu + std::fabs(e_[i])));
      least = std::min(least, mu);
    }
    return false;
  }

  T shift_of(int64_t l, int64_t m, T least, T most) const {
    if (static_cast<T>(n_) * tolerance * (least / most) <= std::max(epsilon, tolerance / 100)) return 0;
    const T end = std::fabs(d_[down_ ? l : m]);
    const T shift =
        down_ ? smaller_of_triangle(d_[m - 1], e_[m - 1], d_[m]) : smaller_of_triangle(d_[l], e_[l], d_[l + 1]);
    return end > 0 && shift / end * (shift / end) < epsilon ? T(0) : shift;
  }

  void begin(int64_t l, int64_t m) {
    left_.begin(l, m - l, !down_);
    right_.begin(l, m - l, !down_);
  }

  void plain_down(int64_t l, int64_t m) {
    begin(l, m);
    T cs = 1, old_c = 1, old_s = 0;
    for (int64_t i = l; i < m; ++i) {
      const Rotation<T> a = rotation_of(d_[i] * cs, e_[i]);
      cs = a.c;
      if (i > l) e_[i - 1] = old_s * a.r;
      const Rotation<T> b = rotation_of(old_c * a.r, d_[i + 1] * a.s);
      old_c = b.c, old_s = b.s;
      d_[i] = b.r;
      right_.set(i - l, a.c, a.s);
      left_.set(i - l, b.c, b.s);
    }
    const T h = d_[m] * cs;
    d_[m] = h * old_c;
    e_[m - 1] = h * old_s;
    if (std::fabs(e_[m - 1]) <= threshold_) e_[m - 1] = 0;
  }
  void plain_up(int64_t l, int64_t m) {
    begin(l, m);
    T cs = 1, old_c = 1, old_s = 0;
    for (int64_t i = m; i > l; --i) {
      const Rotation<T> a = rotation_of(d_[i] * cs, e_[i - 1]);
      cs = a.c;
      if (i < m) e_[i] = old_s * a.r;
      const Rotation<T> b = rotation_of(old_c * a.r, d_[i - 1] * a.s);
      old_c = b.c, old_s = b.s;
      d_[i] = b.r;
      left_.set(i - 1 - l, a.c, -a.s);
      right_.set(i - 1 - l, b.c, -b.s);
    }
    const T h = d_[l] * cs;
    d_[l] = h * old_c;
    e_[l] = h * old_s;
    if (std::fabs(e_[l]) <= threshold_) e_[l] = 0;
  }
  void shifted_down(int64_t l, int64_t m, T shift) {
    begin(l, m);
    T f = (std::fabs(d_[l]) - shift) * (std::copysign(T(1), d_[l]) + shift / d_[l]), g = e_[l];
    for (int64_t i = l; i < m; ++i) {
      const Rotation<T> a = rotation_of(f, g);
      if (i > l) e_[i - 1] = a.r;
      f = a.c * d_[i] + a.s * e_[i];
      e_[i] = a.c * e_[i] - a.s * d_[i];
      g = a.s * d_[i + 1];
      d_[i + 1] *= a.c;
      const Rotation<T> b = rotation_of(f, g);
      d_[i] = b.r;
      f = b.c * e_[i] + b.s * d_[i + 1];
      d_[i + 1] = b.c * d_[i + 1] - b.s * e_[i];
      if (i + 1 < m) {
        g = b.s * e_[i + 1];
        e_[i + 1] *= b.c;
      }
      right_.set(i - l, a.c, a.s);
      left_.set(i - l, b.c, b.s);
    }
    e_[m - 1] = std::fabs(f) <= threshold_ ? T(0) : f;
  }
  void shifted_up(int64_t l, int64_t m, T shift) {
    begin(l, m);
    T f = (std::fabs(d_[m]) - shift) * (std::copysign(T(1), d_[m]) + shift / d_[m]), g = e_[m - 1];
    for (int64_t i = m; i > l; --i) {
      const Rotation<T> a = rotation_of(f, g);
      if (i < m) e_[i] = a.r;
      f = a.c * d_[i] + a.s * e_[i - 1];
      e_[i - 1] = a.c * e_[i - 1] - a.s * d_[i];
      g = a.s * d_[i - 1];
      d_[i - 1] *= a.c;
      const Rotation<T> b = rotation_of(f, g);
      d_[i] = b.r;
      f = b.c * e_[i - 1] + b.s * d_[i - 1];
      d_[i - 1] = b.c * d_[i - 1] - b.s * e_[i - 1];
      if (i - 1 > l) {
        g = b.s * e_[i - 2];
        e_[i - 2] *= b.c;
      }
      left_.set(i - 1 - l, a.c, -a.s);
      right_.set(i - 1 - l, b.c, -b.s);
    }
    e_[l] = std::fabs(f) <= threshold_ ? T(0) : f;
  }

  T *d_, *e_;
  Rotations<T>&left_, &right_;
  int64_t n_, old_first_ = -1, old_last_ = -1;
  bool down_ = true;
  T threshold_ = 0;
};

}  // namespace weft::cpu
