// The value type that formulas over integers are compiled with: 64 bits that wrap, with a sign or without one. Narrower
// types are cut when stored.
#pragma once

#include "../../functors/math.hpp"
#include "device.hpp"

namespace weft::portable {
template <class C>
struct Whole;
}
namespace weft::functors {
template <class C>
struct IsWhole<portable::Whole<C>> {
  enum { value = 1 };
};
}  // namespace weft::functors

namespace weft::portable {

template <class C>
struct Whole {
  C raw;

  Whole() = default;
  template <class U>
  WEFT_DEVICE explicit Whole(U x) : raw((C)x) {}

  friend WEFT_DEVICE Whole operator+(Whole a, Whole b) { return Whole((uint64_t)a.raw + (uint64_t)b.raw); }
  friend WEFT_DEVICE Whole operator-(Whole a, Whole b) { return Whole((uint64_t)a.raw - (uint64_t)b.raw); }
  friend WEFT_DEVICE Whole operator*(Whole a, Whole b) { return Whole((uint64_t)a.raw * (uint64_t)b.raw); }
  friend WEFT_DEVICE Whole operator-(Whole a) { return Whole((uint64_t)0 - (uint64_t)a.raw); }
  friend WEFT_DEVICE bool operator==(Whole a, Whole b) { return a.raw == b.raw; }
  friend WEFT_DEVICE bool operator<(Whole a, Whole b) { return a.raw < b.raw; }
  friend WEFT_DEVICE bool operator<=(Whole a, Whole b) { return a.raw <= b.raw; }
  friend WEFT_DEVICE bool operator>(Whole a, Whole b) { return a.raw > b.raw; }
  friend WEFT_DEVICE bool operator>=(Whole a, Whole b) { return a.raw >= b.raw; }
};

template <class C>
WEFT_DEVICE Whole<C> select(bool mask, Whole<C> a, Whole<C> b) {
  return mask ? a : b;
}
template <class C>
WEFT_DEVICE Whole<C> zero_like(Whole<C>) {
  return Whole<C>(0);
}
template <class C>
WEFT_DEVICE Whole<C> maximum(Whole<C> a, Whole<C> b) {
  return a > b ? a : b;
}
template <class C>
WEFT_DEVICE Whole<C> minimum(Whole<C> a, Whole<C> b) {
  return a < b ? a : b;
}
template <class C>
WEFT_DEVICE Whole<C> abs(Whole<C> x) {
  return Whole<C>(x.raw < 0 ? -x.raw : x.raw);
}
template <class C>
WEFT_DEVICE Whole<C> sign(Whole<C> x) {
  return Whole<C>((x.raw > 0) - (x.raw < 0));
}
template <class C>
WEFT_DEVICE Whole<C> floor(Whole<C> x) {
  return x;
}
template <class C>
WEFT_DEVICE Whole<C> ceil(Whole<C> x) {
  return x;
}
template <class C>
WEFT_DEVICE Whole<C> rint(Whole<C> x) {
  return x;
}
template <class C>
WEFT_DEVICE Whole<C> trunc(Whole<C> x) {
  return x;
}
/// Whether b is -1, where a quotient may overflow.
template <class C>
WEFT_DEVICE bool is_minus_one(Whole<C> b) {
  return (C)-1 < (C)0 && b.raw == (C)-1;
}
/// b, or 1 where a division by b traps or is simple: where it is 0 or -1.
template <class C>
WEFT_DEVICE C safe_divisor(Whole<C> b) {
  return ((b.raw == 0) | is_minus_one(b)) ? 1 : b.raw;
}
template <class C>
WEFT_DEVICE Whole<C> quotient(Whole<C> a, Whole<C> b) {
  const C q = a.raw / safe_divisor(b);
  return select(b.raw == 0, b, select(is_minus_one(b), -a, Whole<C>(q)));
}
template <class C>
WEFT_DEVICE Whole<C> fmod(Whole<C> a, Whole<C> b) {
  return Whole<C>(a.raw % safe_divisor(b));
}
/// A negative exponent gives 0, except for the bases 1 and -1.
template <class C>
WEFT_DEVICE Whole<C> pow(Whole<C> base, Whole<C> exponent) {
  C e = exponent.raw;
  if (e < 0) {
    if (base.raw == 1) return base;
    return Whole<C>(base.raw != (C)-1 ? 0 : ((e & 1) != 0 ? -1 : 1));
  }
  Whole<C> result(1);
  for (; e != 0; e = e >> 1) {
    if ((e & 1) != 0) result = result * base;
    base = base * base;
  }
  return result;
}

/// Numbers in the form that formulas take, and back.
template <class C>
WEFT_DEVICE C lift(C x) {
  return x;
}
WEFT_DEVICE Whole<int64_t> lift(int64_t x) { return Whole<int64_t>(x); }
WEFT_DEVICE Whole<uint64_t> lift(uint64_t x) { return Whole<uint64_t>(x); }
template <class C>
WEFT_DEVICE C lower(C x) {
  return x;
}
template <class C>
WEFT_DEVICE C lower(Whole<C> x) {
  return x.raw;
}

}  // namespace weft::portable
