// The functions a formula may use, for plain numbers. SIMD registers bring theirs in backends/cpu, symbolic tensors in
// ops/; both are found by argument-dependent lookup.
#pragma once

#include <weft/tensor/number.hpp>

#if !defined(__OPENCL_CPP_VERSION__)
#include <cmath>
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
template <class T> WEFT_FN T sign(T x) { return select(x > T(0), T(1), select(x < T(0), T(-1), x)); }
/// The larger; NaN wins.
template <class T> WEFT_FN T maximum(T a, T b) { return select(a != a, a, select(b != b, b, select(a > b, a, b))); }
/// The smaller; NaN wins.
template <class T> WEFT_FN T minimum(T a, T b) { return select(a != a, a, select(b != b, b, select(a < b, a, b))); }

template <class T> WEFT_FN T abs(T x) { return select(x < T(0), T(-x), T(x + T(0))); }
#if defined(__OPENCL_CPP_VERSION__)
WEFT_FN float pow(float base, float exponent) { return ::pow(base, exponent); }
#if defined(cl_khr_fp64)
WEFT_FN double pow(double base, double exponent) { return ::pow(base, exponent); }
#endif
#else
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
