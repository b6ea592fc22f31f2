// The elementary functions of complex numbers, so that the formulas of holomorphic ops are computed of these, too.
// Branch cuts and special values are those of C's annex G. Only for the host.
#pragma once

#include <complex>

#include "math.hpp"
#include "../../tensor/complex.hpp"

namespace weft {

namespace functors {
/// Whether a formula is valid for complex numbers unchanged, as declared by its functor.
template <class F>
concept Holomorphic = requires {
  F::holomorphic;
};
}  // namespace functors

#define WEFT_COMPLEX_FUNCTION(name)                        \
  template <class T>                                       \
  Complex<T> name(Complex<T> z) {                          \
    const auto w = std::name(std::complex<T>(z.re, z.im)); \
    return {w.real(), w.imag()};                           \
  }
WEFT_COMPLEX_FUNCTION(acos)
WEFT_COMPLEX_FUNCTION(acosh)
WEFT_COMPLEX_FUNCTION(asin)
WEFT_COMPLEX_FUNCTION(asinh)
WEFT_COMPLEX_FUNCTION(atan)
WEFT_COMPLEX_FUNCTION(atanh)
WEFT_COMPLEX_FUNCTION(cos)
WEFT_COMPLEX_FUNCTION(cosh)
WEFT_COMPLEX_FUNCTION(exp)
WEFT_COMPLEX_FUNCTION(log)
WEFT_COMPLEX_FUNCTION(sin)
WEFT_COMPLEX_FUNCTION(sinh)
WEFT_COMPLEX_FUNCTION(sqrt)
WEFT_COMPLEX_FUNCTION(tan)
WEFT_COMPLEX_FUNCTION(tanh)
#undef WEFT_COMPLEX_FUNCTION

/// a to the power n > 0 by squaring. No factor is 1: that times an infinite component would be NaN.
inline Complex<double> whole_power(Complex<double> a, int n) {
  for (; (n & 1) == 0; n >>= 1) a = a * a;
  Complex<double> power = a;
  for (n >>= 1; n != 0; n >>= 1) {
    a = a * a;
    if ((n & 1) != 0) power = power * a;
  }
  return power;
}
/// exp(b log(a)); 1 where b is 0, and 0 to a power with a positive real part is 0.
inline Complex<double> pow(Complex<double> a, Complex<double> b) {
  const double zero = 0;
  if (b.re == zero && b.im == zero) return {1, zero};
  if (a.re == zero && a.im == zero) {
    if (b.re > zero) return {zero, zero};
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan};
  }
  if (b.im == zero && b.re == std::rint(b.re) && std::abs(b.re) <= 100) {  // exact where the products are
    const int n = static_cast<int>(std::abs(b.re));
    const Complex<double> one(1), power = whole_power(a, n);
    if (b.re > zero) return power;
    const bool in_range = std::isfinite(power.re) && std::isfinite(power.im) && (power.re != zero || power.im != zero);
    return in_range ? one / power : whole_power(one / a, n);
  }
  return exp(b * log(a));
}
/// Rounded once, so that no product on the way overflows.
inline Complex<float> pow(Complex<float> a, Complex<float> b) {
  const Complex<double> y = pow(Complex<double>(a.re, a.im), Complex<double>(b.re, b.im));
  return {static_cast<float>(y.re), static_cast<float>(y.im)};
}
template <class T>
Complex<T> exp2(Complex<T> z) {
  if (z.im == T(0)) return {std::exp2(z.re), z.im};
  return exp(Complex<T>(z.re * T(0.69314718055994531), z.im * T(0.69314718055994531)));
}
template <class T>
Complex<T> log2(Complex<T> z) {
  const Complex<T> w = log(z);
  return {w.re * T(1.4426950408889634), w.im * T(1.4426950408889634)};
}
template <class T>
Complex<T> log10(Complex<T> z) {
  const Complex<T> w = log(z);
  return {w.re * T(0.43429448190325183), w.im * T(0.43429448190325183)};
}
/// exp(x) cos(y) - 1 = expm1(x) cos(y) - 2 sin²(y / 2)
template <class T>
Complex<T> expm1(Complex<T> z) {
  if (z.im == T(0)) return {std::expm1(z.re), z.im};
  if (!(std::abs(z.re) < T(80)) || !std::isfinite(z.im)) {  // 1 is lost, or the product has no limit
    const Complex<T> power = exp(z);
    return {power.re - T(1), power.im};
  }
  const T half = std::sin(z.im / 2);
  return {std::expm1(z.re) * std::cos(z.im) - 2 * half * half, std::exp(z.re) * std::sin(z.im)};
}
/// |1 + z|² - 1 = x (2 + x) + y²
template <class T>
Complex<T> log1p(Complex<T> z) {
  const T angle = std::atan2(z.im, T(1) + z.re);
  if (!(std::abs(z.re) + std::abs(z.im) <= T(0.5))) return {log(Complex<T>(T(1) + z.re, z.im)).re, angle};
  return {std::log1p(z.re * (T(2) + z.re) + z.im * z.im) / 2, angle};
}

}  // namespace weft
