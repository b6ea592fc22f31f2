// Complex elements and their arithmetic.
#pragma once

#include "number.hpp"

namespace weft {

/// re + i im. It has the memory layout of std::complex<T>; either type is accepted as an element type. Products are
/// computed as (ac - bd) + i (ad + bc), without the special cases of C's annex G: on overflow the result may be NaN,
/// not infinity.
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
/// Avoids overflow of |b|² (Smith 1962). Division by 0 of any sign divides each part by +0.
template <class T>
WEFT_FN Complex<T> operator/(Complex<T> a, Complex<T> b) {
  const T c = b.re < 0 ? -b.re : b.re, d = b.im < 0 ? -b.im : b.im;
  if (c == 0 && d == 0) return {a.re / T(0), a.im / T(0)};
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
