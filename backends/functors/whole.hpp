// The integers that formulas are compiled with. Arithmetic wraps around in T's width.
#if !defined(WEFT_FUNCTORS_WHOLE) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_WHOLE

#include "namespace.hpp"
#include "../../tensor/number.hpp"

// clang-format off
namespace weft::WEFT_FUNCTORS {

template <int bytes> struct Unsigned { using type = uint32_t; };
template <> struct Unsigned<8> { using type = uint64_t; };

template <class T> struct Whole {
  using Wide = typename Unsigned<sizeof(T)>::type;
  T raw;

  Whole() = default;
  template <class U> WEFT_FN explicit Whole(U x) : raw(static_cast<T>(x)) {}

  friend WEFT_FN Whole operator+(Whole a, Whole b) { return Whole(static_cast<Wide>(a.raw) + static_cast<Wide>(b.raw)); }
  friend WEFT_FN Whole operator-(Whole a, Whole b) { return Whole(static_cast<Wide>(a.raw) - static_cast<Wide>(b.raw)); }
  friend WEFT_FN Whole operator*(Whole a, Whole b) { return Whole(static_cast<Wide>(a.raw) * static_cast<Wide>(b.raw)); }
  friend WEFT_FN Whole operator-(Whole a) { return Whole(Wide(0) - static_cast<Wide>(a.raw)); }
  friend WEFT_FN bool operator==(Whole a, Whole b) { return a.raw == b.raw; }
  friend WEFT_FN bool operator<(Whole a, Whole b) { return a.raw < b.raw; }
  friend WEFT_FN bool operator<=(Whole a, Whole b) { return a.raw <= b.raw; }
  friend WEFT_FN bool operator>(Whole a, Whole b) { return a.raw > b.raw; }
  friend WEFT_FN bool operator>=(Whole a, Whole b) { return a.raw >= b.raw; }
};
/// Adds by "or" and multiplies by "and"; any byte but 0 is true.
template <> struct Whole<bool> {
  uint8_t raw;

  Whole() = default;
  template <class U> WEFT_FN explicit Whole(U x) : raw(x != 0) {}

  friend WEFT_FN Whole operator+(Whole a, Whole b) { return Whole(a.raw | b.raw); }
  friend WEFT_FN Whole operator*(Whole a, Whole b) { return Whole((a.raw != 0) & (b.raw != 0)); }
  friend WEFT_FN bool operator==(Whole a, Whole b) { return (a.raw != 0) == (b.raw != 0); }
  friend WEFT_FN bool operator<(Whole a, Whole b) { return (a.raw == 0) & (b.raw != 0); }
  friend WEFT_FN bool operator>(Whole a, Whole b) { return b < a; }
  friend WEFT_FN bool operator<=(Whole a, Whole b) { return !(b < a); }
  friend WEFT_FN bool operator>=(Whole a, Whole b) { return !(a < b); }
};

/// Whether V is an integer: divisions of those drop the rest, and need no rounding.
template <class V> struct IsWhole { enum { value = 0 }; };
template <class T> struct IsWhole<Whole<T>> { enum { value = 1 }; };

template <class T> WEFT_FN Whole<T> select(bool mask, Whole<T> a, Whole<T> b) { return mask ? a : b; }
template <class T> WEFT_FN Whole<T> zero_like(Whole<T>) { return Whole<T>(0); }
template <class T> WEFT_FN Whole<T> maximum(Whole<T> a, Whole<T> b) { return a > b ? a : b; }
template <class T> WEFT_FN Whole<T> minimum(Whole<T> a, Whole<T> b) { return a < b ? a : b; }
template <class T> WEFT_FN Whole<T> conj(Whole<T> x) { return x; }
template <class T> WEFT_FN Whole<T> abs(Whole<T> x) { return select(x < Whole<T>(0), -x, x); }
template <class T> WEFT_FN Whole<T> sign(Whole<T> x) { return Whole<T>((x.raw > 0) - (x.raw < T(0))); }
WEFT_FN Whole<bool> abs(Whole<bool> x) { return x; }
WEFT_FN Whole<bool> sign(Whole<bool> x) { return x; }
template <class T> WEFT_FN Whole<T> floor(Whole<T> x) { return x; }
template <class T> WEFT_FN Whole<T> ceil(Whole<T> x) { return x; }
template <class T> WEFT_FN Whole<T> rint(Whole<T> x) { return x; }
template <class T> WEFT_FN Whole<T> trunc(Whole<T> x) { return x; }

/// Whether b is -1, where a quotient may overflow.
template <class T> WEFT_FN bool is_minus_one(Whole<T> b) { return T(-1) < T(0) && b.raw == T(-1); }
/// Whether b is 0 or -1, by which a division traps or is simple.
template <class T> WEFT_FN bool divides_simply(Whole<T> b) { return (b.raw == 0) | is_minus_one(b); }
/// a / b towards zero: wraps where it overflows; 0 where b is 0, which ops refuse before.
template <class T> WEFT_FN Whole<T> quotient(Whole<T> a, Whole<T> b) {
  if (divides_simply(b)) return select(b.raw == 0, b, -a);
  return Whole<T>(a.raw / b.raw);
}
/// The remainder of a.
template <class T> WEFT_FN Whole<T> fmod(Whole<T> a, Whole<T> b) {
  if (divides_simply(b)) return Whole<T>(0);
  return Whole<T>(a.raw % b.raw);
}
/// Whether a rest has another sign than its divisor. Without a branch, as signs are as good as random.
template <class T> WEFT_FN bool points_away(Whole<T> rest, Whole<T> b) {
  return (rest.raw != T(0)) & ((rest.raw < T(0)) != (b.raw < T(0)));
}
template <class T> WEFT_FN Whole<T> kept_if(bool mask, Whole<T> x) {
  using Wide = typename Whole<T>::Wide;
  return Whole<T>(static_cast<Wide>(x.raw) & (Wide(0) - static_cast<Wide>(mask)));
}
/// A negative exponent gives 0, except for the bases 1 and -1.
template <class T> WEFT_FN Whole<T> pow(Whole<T> base, Whole<T> exponent) {
  T e = exponent.raw;
  if (e < T(0)) {
    if (base.raw == T(1)) return base;
    return Whole<T>(base.raw != T(-1) ? 0 : ((e & 1) != 0 ? -1 : 1));
  }
  Whole<T> result(1);
  for (; e != 0; e = static_cast<T>(e >> 1)) {
    if ((e & 1) != 0) result = result * base;
    base = base * base;
  }
  return result;
}
/// a or not b
WEFT_FN Whole<bool> pow(Whole<bool> a, Whole<bool> b) { return Whole<bool>((a.raw != 0) | (b.raw == 0)); }

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
