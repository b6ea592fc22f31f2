// Vec and Mask: the values that formulas are compiled with, once for each SIMD target. Vec<float> and Vec<double> are
// whole registers; integers are functors::Whole<T>, one at a time, in loops that the compiler vectorises. After this
// header the formulas of backends/functors/ exist in weft::cpu::HWY_NAMESPACE::functors, compiled for the target: code
// from outside would not be inlined.
#include "simd_targets.hpp"
#include <hwy/highway.h>

#include "../../functors/formulas.hpp"

#if defined(WEFT_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_SIMD_INL
#undef WEFT_SIMD_INL
#else
#define WEFT_SIMD_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// For lambdas in hot loops, which are called twice, for whole registers and for the rest: g++ would not inline them.
#define WEFT_INLINE __attribute__((always_inline))

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Raw = hn::Vec<Tag<T>>;

template <class T>
struct Mask {
  hn::Mask<Tag<T>> raw;
};

template <class T>
struct Vec {
  using Element = T;
  Raw<T> raw;

  Vec() = default;
  HWY_INLINE Vec(Raw<T> r) : raw(r) {}
  HWY_INLINE explicit Vec(double constant) : raw(hn::Set(Tag<T>(), static_cast<T>(constant))) {}
};

#define WEFT_OPERATOR(op)                             \
  template <class T>                                  \
  HWY_INLINE Vec<T> operator op(Vec<T> a, Vec<T> b) { \
    return a.raw op b.raw;                            \
  }
WEFT_OPERATOR(+)
WEFT_OPERATOR(-)
WEFT_OPERATOR(*)
WEFT_OPERATOR(/)
#undef WEFT_OPERATOR
#define WEFT_COMPARISON(op)                            \
  template <class T>                                   \
  HWY_INLINE Mask<T> operator op(Vec<T> a, Vec<T> b) { \
    return {a.raw op b.raw};                           \
  }
WEFT_COMPARISON(==)
WEFT_COMPARISON(<)
WEFT_COMPARISON(<=)
WEFT_COMPARISON(>)
WEFT_COMPARISON(>=)
#undef WEFT_COMPARISON
/// Highway's own != is false where an operand is NaN.
template <class T>
HWY_INLINE Mask<T> operator!=(Vec<T> a, Vec<T> b) {
  return {hn::Not(a.raw == b.raw)};
}
template <class T>
HWY_INLINE Mask<T> is_nan(Vec<T> x) {
  return {hn::IsNaN(x.raw)};
}

template <class T>
HWY_INLINE Mask<T> operator&(Mask<T> a, Mask<T> b) {
  return {hn::And(a.raw, b.raw)};
}
template <class T>
HWY_INLINE Mask<T> operator|(Mask<T> a, Mask<T> b) {
  return {hn::Or(a.raw, b.raw)};
}
template <class T>
HWY_INLINE Mask<T> operator!(Mask<T> a) {
  return {hn::Not(a.raw)};
}
template <class T>
HWY_INLINE bool any(Mask<T> mask) {
  return !hn::AllFalse(Tag<T>(), mask.raw);
}

template <class T>
HWY_INLINE Vec<T> select(Mask<T> mask, Vec<T> a, Vec<T> b) {
  return hn::IfThenElse(mask.raw, a.raw, b.raw);
}
template <class T>
HWY_INLINE Vec<T> operator-(Vec<T> x) {
  return hn::Neg(x.raw);
}
template <class T>
HWY_INLINE Vec<T> zero_like(Vec<T>) {
  return hn::Zero(Tag<T>());
}
template <class T>
HWY_INLINE Vec<T> conj(Vec<T> x) {
  return x;
}
template <class T>
HWY_INLINE Vec<T> abs(Vec<T> x) {
  return hn::Abs(x.raw);
}
/// The magnitude of `a` with the sign of `b`.
template <class T>
HWY_INLINE Vec<T> copy_sign(Vec<T> a, Vec<T> b) {
  return hn::CopySign(a.raw, b.raw);
}
template <class T>
HWY_INLINE Vec<T> sign(Vec<T> x) {
  return select(x == zero_like(x), zero_like(x), select(is_nan(x), x, copy_sign(Vec<T>(1), x)));
}
template <class T>
HWY_INLINE Vec<T> maximum(Vec<T> a, Vec<T> b) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return select(is_nan(a), a, select(is_nan(b), b, select(a > b, a, b)));
#else
  return select(is_nan(a), a, Vec<T>(hn::Max(a.raw, b.raw)));  // x86 gives b where either is NaN
#endif
}
template <class T>
HWY_INLINE Vec<T> minimum(Vec<T> a, Vec<T> b) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return select(is_nan(a), a, select(is_nan(b), b, select(a < b, a, b)));
#else
  return select(is_nan(a), a, Vec<T>(hn::Min(a.raw, b.raw)));
#endif
}
template <class T>
HWY_INLINE Vec<T> sqrt(Vec<T> x) {
  return hn::Sqrt(x.raw);
}
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define WEFT_SIGNED(rounded, x) copy_sign(Vec<T>(rounded), x)  // these targets lose the sign of zero
#else
#define WEFT_SIGNED(rounded, x) rounded
#endif
template <class T>
HWY_INLINE Vec<T> floor(Vec<T> x) {
  return WEFT_SIGNED(hn::Floor(x.raw), x);
}
template <class T>
HWY_INLINE Vec<T> ceil(Vec<T> x) {
  return WEFT_SIGNED(hn::Ceil(x.raw), x);
}
template <class T>
HWY_INLINE Vec<T> rint(Vec<T> x) {
  return WEFT_SIGNED(hn::Round(x.raw), x);
}
template <class T>
HWY_INLINE Vec<T> trunc(Vec<T> x) {
  return WEFT_SIGNED(hn::Trunc(x.raw), x);
}
#undef WEFT_SIGNED
/// a * b + c, rounded once where the target can.
template <class T>
HWY_INLINE Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
  return hn::MulAdd(a.raw, b.raw, c.raw);
}
/// c - a * b
template <class T>
HWY_INLINE Vec<T> fnma(Vec<T> a, Vec<T> b, Vec<T> c) {
  return hn::NegMulAdd(a.raw, b.raw, c.raw);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#include "simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
template <class T>
HWY_INLINE Vec<T> sigmoid(Vec<T> x) {
  return Vec<T>(1) / (Vec<T>(1) + exp(-x));
}
}  // namespace weft::cpu::HWY_NAMESPACE
#define WEFT_SIMD_FUNCTORS
#undef WEFT_FUNCTORS
#define WEFT_FUNCTORS cpu::HWY_NAMESPACE::functors
#include "../../functors/saved.hpp"
#include "../../functors/whole.hpp"
#include "../../functors/binary.hpp"
#include "../../functors/compare.hpp"
#include "../../functors/integer.hpp"
#include "../../functors/optimizers.hpp"
#include "../../functors/ternary.hpp"
#include "../../functors/unary.hpp"
#include "../../functors/recurrent.hpp"
#undef WEFT_FUNCTORS
#define WEFT_FUNCTORS functors
#undef WEFT_SIMD_FUNCTORS

HWY_AFTER_NAMESPACE();

#include "simd_special-inl.hpp"

#endif  // per target
