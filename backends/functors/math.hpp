// The functions a formula may use, for plain numbers. SIMD registers bring theirs in backends/cpu, symbolic tensors in
// ops/; both are found by argument-dependent lookup.
#pragma once

#include "../../tensor/number.hpp"

#if !defined(__OPENCL_CPP_VERSION__)
#include <cmath>
#include <type_traits>
#endif

/// The namespace of the formulas; backends/cpu compiles them again in one for each SIMD target.
#define WEFT_FUNCTORS functors

namespace weft::functors {

#if !defined(__OPENCL_CPP_VERSION__)
using std::atan2;
using std::ceil;
using std::cos;
using std::erf;
using std::exp;
using std::expm1;
using std::floor;
using std::log;
using std::log1p;
using std::rint;
using std::sin;
using std::sqrt;
using std::tanh;
using std::trunc;
#endif

// clang-format off
template <class T> WEFT_FN T&& take(T& value) { return static_cast<T&&>(value); }
template <class T> WEFT_FN T zero_like(T) { return T(0); }
template <class T> WEFT_FN T select(bool mask, T a, T b) { return mask ? a : b; }
/// A zero that has g's shape, where g is a tensor.
template <class T> WEFT_FN T zeros_like(T) { return T(0); }
template <class T> WEFT_FN T sign(T x) { return select(x > T(0), T(1), select(x < T(0), T(-1), T(x + T(0)))); }
/// The larger; NaN wins.
template <class T> WEFT_FN T maximum(T a, T b) { return select(a != a, a, select(b != b, b, select(a > b, a, b))); }
/// The smaller; NaN wins.
template <class T> WEFT_FN T minimum(T a, T b) { return select(a != a, a, select(b != b, b, select(a < b, a, b))); }

template <class T> WEFT_FN T abs(T x) { return select(x < T(0), T(-x), T(x + T(0))); }
#if defined(__OPENCL_CPP_VERSION__)
/// Whether V is an integer: divisions of those drop the rest, and need no rounding.
template <class V> struct IsWhole { enum { value = 0 }; };
WEFT_FN float pow(float base, float exponent) { return ::pow(base, exponent); }
WEFT_FN float fmod(float a, float b) { return ::fmod(a, b); }
#if defined(cl_khr_fp64)
WEFT_FN double pow(double base, double exponent) { return ::pow(base, exponent); }
WEFT_FN double fmod(double a, double b) { return ::fmod(a, b); }
#endif
#else
template <class V> struct IsWhole { enum { value = std::is_integral_v<V> }; };
/// a / b of integers, towards zero: wraps where it overflows; 0 where b is 0, which ops refuse before.
template <class T> WEFT_FN T quotient(T a, T b) {
  if (b == T(0)) return T(0);
  if (T(-1) < T(0) && b == T(-1)) return static_cast<T>(0 - static_cast<uint64_t>(a));
  return T(a / b);
}
/// What a division towards zero leaves of a, without rounding; it has the sign of a.
template <class T> WEFT_FN T fmod(T a, T b) {
  if constexpr (T(0.5) != T(0)) {
    return std::fmod(a, b);
  } else {
    if (b == T(0) || (T(-1) < T(0) && b == T(-1))) return T(0);
    return T(a % b);
  }
}
template <class T> WEFT_FN T pow(T base, T exponent) {
  if constexpr (T(0.5) != T(0)) {
    return std::pow(base, exponent);
  } else {  // integers wrap; a negative exponent gives 0 except for bases 1 and -1
    if (exponent < 0) return base == 1 ? T(1) : (base == T(-1) ? ((exponent & 1) ? T(-1) : T(1)) : T(0));
    T result = 1;
    for (; exponent != 0; exponent = T(exponent >> 1)) {
      if (exponent & 1) result = T(result * base);
      base = T(base * base);
    }
    return result;
  }
}
#endif

// clang-format on

}  // namespace weft::functors
