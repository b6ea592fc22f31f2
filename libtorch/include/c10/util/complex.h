// Functions of complex numbers.
#pragma once

#include <cmath>

#include <c10/core/ScalarType.h>

namespace weft {
template <class T>
T abs(const Complex<T>& z) {
  return std::hypot(z.re, z.im);
}
template <class T>
Complex<T>& operator+=(Complex<T>& a, Complex<T> b) {
  return a = a + b;
}
template <class T>
Complex<T>& operator-=(Complex<T>& a, Complex<T> b) {
  return a = a - b;
}
template <class T>
Complex<T>& operator*=(Complex<T>& a, Complex<T> b) {
  return a = a * b;
}
template <class T>
Complex<T>& operator/=(Complex<T>& a, Complex<T> b) {
  return a = a / b;
}
}  // namespace weft

// libtorch declares these in std as well, where programs call them.
namespace std {
template <class T>
T abs(const weft::Complex<T>& z) {
  return std::hypot(z.re, z.im);
}
template <class T>
T real(const weft::Complex<T>& z) {
  return z.re;
}
template <class T>
T imag(const weft::Complex<T>& z) {
  return z.im;
}
}  // namespace std
