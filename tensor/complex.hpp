// Complex numbers as elements of tensors, and their arithmetic.
#pragma once

#include "number.hpp"

namespace weft {

/// re + i im. It lies in memory as std::complex<T> does, and either may stand for the other wherever an element type is
/// named. Products are (ac - bd) + i (ad + bc) as they stand: what overflows there is NaN, not the infinity of C's
/// annex G.
template <class T>
struct Complex {
  using value_type = T;
  T re, im;
  Complex() = default;
  WEFT_FN explicit constexpr Complex(T re_) : re(re_), im(T(0)) {}
  WEFT_FN constexpr Complex(T re_, T im_) : re(re_), im(im_) {}
  WEFT_FN constexpr T real() const { return re; }
  WEFT_FN constexpr T imag() const { return im; }
};
using complex64 = Complex<float>;
#if !defined(__OPENCL_CPP_VERSION__) || defined(WEFT_HAS_DOUBLE)
using complex128 = Complex<double>;
#endif

template <class T>
WEFT_FN Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
WEFT_FN Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
WEFT_FN Complex<T> operator-(Complex<T> a) {
  return {-a.re, -a.im};
}
template <class T>
WEFT_FN Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/// Without overflow of |b|² (Smith 1962). What is divided by 0 is divided so part by part.
template <class T>
WEFT_FN Complex<T> operator/(Complex<T> a, Complex<T> b) {
  const T c = b.re < 0 ? -b.re : b.re, d = b.im < 0 ? -b.im : b.im;
  if (c == 0 && d == 0) return {a.re / c, a.im / c};
  if (c >= d) {
    const T ratio = b.im / b.re, divisor = b.re + b.im * ratio;
    return {(a.re + a.im * ratio) / divisor, (a.im - a.re * ratio) / divisor};
  }
  const T ratio = b.re / b.im, divisor = b.im + b.re * ratio;
  return {(a.re * ratio + a.im) / divisor, (a.im * ratio - a.re) / divisor};
}
template <class T>
WEFT_FN bool operator==(Complex<T> a, Complex<T> b) {
  return a.re == b.re && a.im == b.im;
}
template <class T>
WEFT_FN bool operator!=(Complex<T> a, Complex<T> b) {
  return !(a == b);
}
template <class T>
WEFT_FN Complex<T> conj(Complex<T> z) {
  return {z.re, -z.im};
}

}  // namespace weft
