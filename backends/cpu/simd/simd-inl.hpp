// Vec, Mask and Number: the value types that formulas are compiled with, once for each SIMD target.
//
// Vec<float> and Vec<double> are whole registers. Number<T> is one integer or bool with wrapping arithmetic, for loops
// that the compiler vectorises by itself. After this header the formulas of backends/functors/ exist in
// weft::cpu::HWY_NAMESPACE::functors, compiled for the target: code from outside would not be inlined.
#include "simd_targets.hpp"
#include <hwy/highway.h>

#include "../../functors/formulas.hpp"
#include "../../functors/lists.hpp"

#if defined(WEFT_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_SIMD_INL
#undef WEFT_SIMD_INL
#else
#define WEFT_SIMD_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lambdas in hot loops are called twice, for whole registers and for the rest: g++ would leave a call.
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
/// Highway's own is false where an operand is NaN.
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

/// One integer; arithmetic wraps around.
template <class T>
struct Number {
  using Element = T;
  using Wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  T raw;

  Number() = default;
  template <class U>
  WEFT_FN explicit Number(U x) : raw(static_cast<T>(x)) {}

  friend WEFT_FN Number operator+(Number a, Number b) {
    return Number(static_cast<Wide>(a.raw) + static_cast<Wide>(b.raw));
  }
  friend WEFT_FN Number operator-(Number a, Number b) {
    return Number(static_cast<Wide>(a.raw) - static_cast<Wide>(b.raw));
  }
  friend WEFT_FN Number operator*(Number a, Number b) {
    return Number(static_cast<Wide>(a.raw) * static_cast<Wide>(b.raw));
  }
  friend WEFT_FN Number operator-(Number a) { return Number(Wide{0} - static_cast<Wide>(a.raw)); }
  friend WEFT_FN bool operator==(Number a, Number b) { return a.raw == b.raw; }
  friend WEFT_FN bool operator<(Number a, Number b) { return a.raw < b.raw; }
  friend WEFT_FN bool operator<=(Number a, Number b) { return a.raw <= b.raw; }
  friend WEFT_FN bool operator>(Number a, Number b) { return a.raw > b.raw; }
  friend WEFT_FN bool operator>=(Number a, Number b) { return a.raw >= b.raw; }
};

/// Bool adds by "or" and multiplies by "and"; any byte but 0 is true.
template <>
struct Number<bool> {
  using Element = bool;
  uint8_t raw;

  Number() = default;
  template <class U>
  WEFT_FN explicit Number(U x) : raw(x != 0) {}

  friend WEFT_FN Number operator+(Number a, Number b) { return Number(a.raw | b.raw); }
  friend WEFT_FN Number operator*(Number a, Number b) { return Number((a.raw != 0) & (b.raw != 0)); }
  friend WEFT_FN bool operator==(Number a, Number b) { return (a.raw != 0) == (b.raw != 0); }
  friend WEFT_FN bool operator<(Number a, Number b) { return (a.raw == 0) & (b.raw != 0); }
  friend WEFT_FN bool operator>(Number a, Number b) { return b < a; }
  friend WEFT_FN bool operator<=(Number a, Number b) { return !(b < a); }
  friend WEFT_FN bool operator>=(Number a, Number b) { return !(a < b); }
};

template <class T>
WEFT_FN Number<T> select(bool mask, Number<T> a, Number<T> b) {
  return mask ? a : b;
}
template <class T>
WEFT_FN Number<T> zero_like(Number<T>) {
  return Number<T>(0);
}
template <class T>
WEFT_FN Number<T> maximum(Number<T> a, Number<T> b) {
  return a > b ? a : b;
}
template <class T>
WEFT_FN Number<T> minimum(Number<T> a, Number<T> b) {
  return a < b ? a : b;
}
template <class T>
WEFT_FN Number<T> abs(Number<T> x) {
  if constexpr (std::is_same_v<T, bool>) return x;
  else return x < Number<T>(0) ? -x : x;
}
template <class T>
WEFT_FN Number<T> sign(Number<T> x) {
  if constexpr (std::is_same_v<T, bool>) return x;
  else return Number<T>((x.raw > 0) - (x.raw < T(0)));
}
template <class T>
WEFT_FN Number<T> floor(Number<T> x) {
  return x;
}
template <class T>
WEFT_FN Number<T> ceil(Number<T> x) {
  return x;
}
template <class T>
WEFT_FN Number<T> rint(Number<T> x) {
  return x;
}
template <class T>
WEFT_FN Number<T> trunc(Number<T> x) {
  return x;
}
/// Whether V is an integer; see backends/functors/math.hpp, as for the functions below.
template <class V>
struct IsWhole {
  enum { value = 0 };
};
template <class T>
struct IsWhole<Number<T>> {
  enum { value = 1 };
};
template <class T>
WEFT_FN Number<T> quotient(Number<T> a, Number<T> b) {
  if (b.raw == 0) return b;
  if (std::is_signed_v<T> && b.raw == static_cast<T>(-1)) return -a;
  return Number<T>(a.raw / b.raw);
}
template <class T>
WEFT_FN Number<T> fmod(Number<T> a, Number<T> b) {
  if (b.raw == 0 || (std::is_signed_v<T> && b.raw == static_cast<T>(-1))) return Number<T>(0);
  return Number<T>(a.raw % b.raw);
}
/// A negative exponent gives 0, except for the bases 1 and -1; bool: a or not b.
template <class T>
WEFT_FN Number<T> pow(Number<T> base, Number<T> exponent) {
  if constexpr (std::is_same_v<T, bool>) {
    return Number<T>((base.raw != 0) | (exponent.raw == 0));
  } else {
    T e = exponent.raw;
    if (e < T(0)) {
      if (base.raw == T(1)) return base;
      return base.raw == static_cast<T>(-1) ? ((e & 1) != 0 ? base : Number<T>(1)) : Number<T>(0);
    }
    Number<T> result(1);
    for (; e != 0; e = static_cast<T>(e >> 1)) {
      if ((e & 1) != 0) result = result * base;
      base = base * base;
    }
    return result;
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#include "simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
#define WEFT_SIMD_FUNCTORS
#undef WEFT_FUNCTORS
#define WEFT_FUNCTORS cpu::HWY_NAMESPACE::functors
#include "../../functors/binary.hpp"
#include "../../functors/compare.hpp"
#include "../../functors/ternary.hpp"
#include "../../functors/unary.hpp"
#undef WEFT_FUNCTORS
#define WEFT_FUNCTORS functors
#undef WEFT_SIMD_FUNCTORS
HWY_AFTER_NAMESPACE();

#endif  // per target
