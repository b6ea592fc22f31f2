// Loops of the binary and ternary formulas over f32 and f64.
#include <limits>

#include "loops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/pointwise/loops_binary.cpp"
#include "../simd/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"
#include "../simd/simd_loops-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

template <class F, class A, class B>
void binary_loop(void* out, const void* a, const void* b, int64_t n) {
  using T = typename A::Element;
  for_vectors<T>(
      static_cast<T*>(out), n, [](Vec<T> x, Vec<T> y) HWY_ATTR WEFT_INLINE { return F::value(x, y); }, A(a), B(b));
}
template <class F, class A, class B, class C>
void ternary_loop(void* out, const void* a, const void* b, const void* c, int64_t n) {
  using T = typename A::Element;
  for_vectors<T>(
      static_cast<T*>(out), n, [](Vec<T> x, Vec<T> y, Vec<T> z) HWY_ATTR WEFT_INLINE { return F::value(x, y, z); },
      A(a), B(b), C(c));
}

template <class F, class T>
void fill_row(BinaryLoop (&loop)[4]) {
  loop[0] = binary_loop<F, Array<T>, Array<T>>;
  loop[1] = binary_loop<F, Repeated<T>, Array<T>>;
  loop[2] = binary_loop<F, Array<T>, Repeated<T>>;
}
template <class F, class T>
void fill_row(TernaryLoop (&loop)[8]) {
  loop[0] = ternary_loop<F, Array<T>, Array<T>, Array<T>>;
  loop[4] = ternary_loop<F, Array<T>, Array<T>, Repeated<T>>;
  loop[6] = ternary_loop<F, Array<T>, Repeated<T>, Repeated<T>>;
}

/// sqrt(x), but with the results of C's pow(x, 0.5) for -0 and -infinity.
template <class T>
HWY_INLINE Vec<T> half_power(Vec<T> x) {
  const Vec<T> infinite(std::numeric_limits<T>::infinity());
  return select(x == -infinite, infinite, sqrt(x + Vec<T>(0)));
}
/// x^b of one b. Powers that need no logarithm are common: x², x³, 1/x, roots, and x¹ in the gradient of x².
template <class T>
void power_loop(void* out, const void* a, const void* b, int64_t n) {
  const T exponent = *static_cast<const T*>(b);
  const auto each = [&](auto formula) HWY_ATTR { for_vectors<T>(static_cast<T*>(out), n, formula, Array<T>(a)); };
  if (exponent == T(1)) return each([](Vec<T> x) HWY_ATTR WEFT_INLINE { return x; });
  if (exponent == T(2)) return each([](Vec<T> x) HWY_ATTR WEFT_INLINE { return x * x; });
  if (exponent == T(3)) return each([](Vec<T> x) HWY_ATTR WEFT_INLINE { return x * x * x; });
  if (exponent == T(-1)) return each([](Vec<T> x) HWY_ATTR WEFT_INLINE { return Vec<T>(1) / x; });
  if (exponent == T(0.5)) return each([](Vec<T> x) HWY_ATTR WEFT_INLINE { return half_power<T>(x); });
  if (exponent == T(-0.5)) return each([](Vec<T> x) HWY_ATTR WEFT_INLINE { return Vec<T>(1) / half_power<T>(x); });
  if (exponent == T(-2)) {
    return each([](Vec<T> x) HWY_ATTR WEFT_INLINE {
      const Vec<T> inverse = Vec<T>(1) / x;
      return inverse * inverse;
    });
  }
  binary_loop<functors::Pow, Array<T>, Repeated<T>>(out, a, b, n);
}

void fill_binary(BinaryLoops& loops) {
#define WEFT_ROW(name, F, ...)                                                          \
  fill_row<functors::F, float>(loops.loop[static_cast<int>(BinaryOp::name)][slot_f32]); \
  fill_row<functors::F, double>(loops.loop[static_cast<int>(BinaryOp::name)][slot_f64]);
  WEFT_BINARY_OPS(WEFT_ROW)
#undef WEFT_ROW
  loops.loop[static_cast<int>(BinaryOp::pow)][slot_f32][2] = power_loop<float>;
  loops.loop[static_cast<int>(BinaryOp::pow)][slot_f64][2] = power_loop<double>;
}
void fill_ternary(TernaryLoops& loops) {
#define WEFT_ROW(name, F, ...)                                                           \
  fill_row<functors::F, float>(loops.loop[static_cast<int>(TernaryOp::name)][slot_f32]); \
  fill_row<functors::F, double>(loops.loop[static_cast<int>(TernaryOp::name)][slot_f64]);
  WEFT_TERNARY_OPS(WEFT_ROW)
#undef WEFT_ROW
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(fill_binary);
HWY_EXPORT(fill_ternary);
void choose_binary_loops() {
  HWY_DYNAMIC_DISPATCH(fill_binary)(binary_loops);
  HWY_DYNAMIC_DISPATCH(fill_ternary)(ternary_loops);
}
}  // namespace weft::cpu
#endif
