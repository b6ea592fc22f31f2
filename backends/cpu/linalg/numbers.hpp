// Helpers for real and complex elements of matrices. Not public.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "../../../tensor/complex.hpp"

namespace weft::cpu {

template <class T>
struct PartsOf {
  using Real = T;
};
template <class R>
struct PartsOf<Complex<R>> {
  using Real = R;
};
/// The type of T's parts; T itself where it is real.
template <class T>
using Real = typename PartsOf<T>::Real;
/// How many real numbers a T is.
template <class T>
constexpr int64_t parts = static_cast<int64_t>(sizeof(T) / sizeof(Real<T>));

template <class T>
Real<T>* reals(T* x) {
  return reinterpret_cast<Real<T>*>(x);
}
template <class T>
const Real<T>* reals(const T* x) {
  return reinterpret_cast<const Real<T>*>(x);
}

template <class T>
T conjugate(T x) {
  if constexpr (parts<T> == 2) return conj(x);
  else return x;
}
template <class T>
Real<T> real_part(T x) {
  if constexpr (parts<T> == 2) return x.re;
  else return x;
}
template <class T>
Real<T> imaginary_part(T x) {
  if constexpr (parts<T> == 2) return x.im;
  else return 0;
}
template <class T>
T times_real(Real<T> a, T x) {
  if constexpr (parts<T> == 2) return {a * x.re, a * x.im};
  else return a * x;
}
template <class T>
T over_real(T x, Real<T> a) {
  if constexpr (parts<T> == 2) return {x.re / a, x.im / a};
  else return x / a;
}

/// |x|
template <class T>
Real<T> magnitude_of(T x) {
  if constexpr (parts<T> == 2) return std::hypot(x.re, x.im);
  else return std::fabs(x);
}
/// |re x| + |im x|, the criterion for pivots.
template <class T>
Real<T> size_of(T x) {
  if constexpr (parts<T> == 2) return std::fabs(x.re) + std::fabs(x.im);
  else return std::fabs(x);
}
template <class T>
void conjugate_all(int64_t n, T* x) {
  if constexpr (parts<T> == 2) {
    for (int64_t i = 0; i < n; ++i) x[i].im = -x[i].im;
  }
}

}  // namespace weft::cpu
