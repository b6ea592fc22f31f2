// Special functions of f32, within 5.5 ulp, near a root in absolute error. Functions with cancelling series are
// computed in double by the formulas of backends/functors/special.hpp, others by shorter series.
#if defined(WEFT_BACKENDS_CPU_SIMD_SPECIAL) == defined(HWY_TARGET_TOGGLE)  // once per target
#ifdef WEFT_BACKENDS_CPU_SIMD_SPECIAL
#undef WEFT_BACKENDS_CPU_SIMD_SPECIAL
#else
#define WEFT_BACKENDS_CPU_SIMD_SPECIAL
#endif

#include "simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

#define WEFT_WIDE(name, of)                                                              \
  HWY_INLINE F32 name(F32 x) {                                                           \
    return narrow(on_doubles([](F64 v) HWY_ATTR { return functors::of(v); }, widen(x))); \
  }
WEFT_WIDE(lgamma_anywhere, lgamma)
WEFT_WIDE(lgamma_of_positive, lgamma_of_positive)
WEFT_WIDE(digamma, digamma)
WEFT_WIDE(trigamma, trigamma)
#undef WEFT_WIDE

HWY_INLINE F32 lgamma(F32 x) { return any(x < zero_like(x)) ? lgamma_anywhere(x) : lgamma_of_positive(x); }

/// As functors::i0_near and so on, up to 8: I_0(x) and I_1(x) / x of z = x² / 4.
HWY_INLINE F32 i0_near(F32 z) {
  return polynomial(z, {1.0, 1.0, 0.25, 0.02777777778, 0.001736111111, 6.944444444e-05, 1.929012346e-06,
                        3.936759889e-08, 6.151187327e-10, 7.594058428e-12, 7.594058428e-14, 6.276081346e-16,
                        4.358389823e-18, 2.57892889e-20, 1.315780046e-22, 5.847911314e-25});
}
HWY_INLINE F32 i1_near(F32 z) {
  return polynomial(z, {0.5, 0.25, 0.04166666667, 0.003472222222, 0.0001736111111, 5.787037037e-06, 1.377865961e-07,
                        2.460474931e-09, 3.417326293e-11, 3.797029214e-13, 3.45184474e-15, 2.615033894e-17,
                        1.676303778e-19, 9.21046032e-22, 4.385933486e-24, 1.827472286e-26});
}
/// sqrt(x) exp(-x) I(x) from 8 on, minimax in t = 8 / x.
HWY_INLINE F32 i0_far(F32 t) {
  return polynomial(t,
                    {0.398942277, 0.006233698234, 0.0004359188905, 6.598630244e-05, -3.381250831e-06, 1.183971796e-05});
}
HWY_INLINE F32 i1_far(F32 t) {
  return polynomial(
      t, {0.3989422844, -0.01870068092, -0.0007277464948, -9.014876575e-05, 2.36755486e-06, -1.380536027e-05});
}
/// |x| for the series near 0, and for the one far from it.
struct Reach {
  F32 a, z, far;
};
HWY_INLINE Reach reach_of(F32 a) {
  const F32 near = minimum(a, F32(8));
  return {near, F32(0.25) * near * near, maximum(a, F32(8))};
}
HWY_INLINE F32 i0e(F32 x) {
  const F32 a = abs(x);
  const Reach at = reach_of(a);
  return select(a <= F32(8), exp(-at.a) * i0_near(at.z), i0_far(F32(8) / at.far) / sqrt(at.far));
}
HWY_INLINE F32 i1e(F32 x) {
  const F32 a = abs(x);
  const Reach at = reach_of(a);
  return copy_sign(select(a <= F32(8), exp(-at.a) * at.a * i1_near(at.z), i1_far(F32(8) / at.far) / sqrt(at.far)), x);
}
HWY_INLINE F32 i0(F32 x) {
  const F32 a = minimum(abs(x), F32(1e30));
  const Reach at = reach_of(a);
  const F32 root = exp(F32(0.5) * at.far);
  return select(a <= F32(8), i0_near(at.z), root * (i0_far(F32(8) / at.far) / sqrt(at.far)) * root);
}
HWY_INLINE F32 i1(F32 x) {
  const F32 a = minimum(abs(x), F32(1e30));
  const Reach at = reach_of(a);
  const F32 root = exp(F32(0.5) * at.far);
  return copy_sign(select(a <= F32(8), at.a * i1_near(at.z), root * (i1_far(F32(8) / at.far) / sqrt(at.far)) * root),
                   x);
}

/// The normal distribution's quantile of 1/2 + q, where `tail` is 1/2 - |q| (Wichura 1988, the seven digits of AS 241).
HWY_INLINE F32 normal_quantile(F32 q, F32 tail) {
  const F32 r = fnma(q, q, F32(0.180625)), depth = sqrt(-log(tail)), s = depth - F32(1.6), t = depth - F32(5);
  const F32 near = q * polynomial(r, {3.3871327179, 50.434271938, 159.29113202, 59.109374720}) /
                   polynomial(r, {1.0, 17.895169469, 78.757757664, 67.187563600});
  const F32 middle = polynomial(s, {1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103}) /
                     polynomial(s, {1.0, 0.73700164250, 0.12021132975});
  const F32 far = polynomial(t, {6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997}) /
                  polynomial(t, {1.0, 0.24197894225, 0.012258202635});
  const F32 outside = select(tail == zero_like(tail), infinity<float>(), select(depth <= F32(5), middle, far));
  return select(abs(q) <= F32(0.425), near, select(q < zero_like(q), -outside, outside));
}
HWY_INLINE F32 erfinv(F32 y) {
  return F32(0.70710678118654752) * normal_quantile(F32(0.5) * y, F32(0.5) * (F32(1) - abs(y)));
}
HWY_INLINE F32 ndtri(F32 p) { return normal_quantile(p - F32(0.5), minimum(p, F32(1) - p)); }

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
