// The functions a formula may use, for plain numbers. SIMD registers bring theirs in backends/cpu/simd, symbolic
// tensors in ops/detail; both are found by argument-dependent lookup.
#pragma once

#include "namespace.hpp"
#include "../../tensor/number.hpp"

#if !defined(__OPENCL_CPP_VERSION__)
#include <cmath>
#endif

/// The only declarations of the elementary functions. They call the C library for numbers, for each lane of a SIMD
/// register and in weft::map, and the device's built-ins in OpenCL. Faster versions are overloads: SIMD in
/// backends/cpu/simd/simd_math-inl.hpp, branch-free in map/elementary.hpp. Their derivatives are the formulas of the
/// ops of the same names.
// clang-format off
#define WEFT_ELEMENTARY_FUNCTIONS(X) \
  X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(ceil) X(cos) X(cosh) X(erf) X(erfc) X(exp) X(exp2) X(expm1) \
  X(floor) X(log) X(log10) X(log1p) X(log2) X(rint) X(sin) X(sinh) X(sqrt) X(tan) X(tanh) X(trunc)
#define WEFT_ELEMENTARY_FUNCTIONS_OF_TWO(X) X(atan2) X(copysign) X(fmod) X(hypot) X(pow)
// clang-format on

// clang-format off
namespace weft::functors {

#if !defined(__OPENCL_CPP_VERSION__)
#define WEFT_USING(name) using std::name;
WEFT_ELEMENTARY_FUNCTIONS(WEFT_USING)
WEFT_ELEMENTARY_FUNCTIONS_OF_TWO(WEFT_USING)
#undef WEFT_USING
#else  // where the functions of whole.hpp would hide the device's
#define WEFT_USING(name) WEFT_FN float name(float x) { return ::name(x); }
#define WEFT_USING_OF_TWO(name) WEFT_FN float name(float x, float y) { return ::name(x, y); }
WEFT_ELEMENTARY_FUNCTIONS(WEFT_USING)
WEFT_ELEMENTARY_FUNCTIONS_OF_TWO(WEFT_USING_OF_TWO)
#undef WEFT_USING
#undef WEFT_USING_OF_TWO
#if defined(cl_khr_fp64)
#define WEFT_USING(name) WEFT_FN double name(double x) { return ::name(x); }
#define WEFT_USING_OF_TWO(name) WEFT_FN double name(double x, double y) { return ::name(x, y); }
WEFT_ELEMENTARY_FUNCTIONS(WEFT_USING)
WEFT_ELEMENTARY_FUNCTIONS_OF_TWO(WEFT_USING_OF_TWO)
#undef WEFT_USING
#undef WEFT_USING_OF_TWO
#endif
#endif

template <class T> WEFT_FN T&& take(T& value) { return static_cast<T&&>(value); }
/// Of real numbers; complex ones have their own.
template <class T> WEFT_FN T conj(T x) { return x; }
template <class T> WEFT_FN T real_part(T x) { return x; }
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
template <class T> WEFT_FN T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }

}  // namespace weft::functors
// clang-format on

#include "saved.hpp"
#include "whole.hpp"
