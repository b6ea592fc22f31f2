// The value type that formulas over integers are compiled with: 64 bits that wrap. Narrower types are cut when stored.
#pragma once

#include <weft/backends/functors/math.hpp>
#include <weft/backends/portable/device.hpp>

namespace weft::portable {
struct Whole;
}
namespace weft::functors {
template <>
struct IsWhole<portable::Whole> {
  enum { value = 1 };
};
}  // namespace weft::functors

namespace weft::portable {

struct Whole {
  int64_t raw;

  Whole() = default;
  template <class U>
  WEFT_DEVICE explicit Whole(U x) : raw((int64_t)x) {}

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

WEFT_DEVICE Whole select(bool mask, Whole a, Whole b) { return mask ? a : b; }
WEFT_DEVICE Whole zero_like(Whole) { return Whole(0); }
WEFT_DEVICE Whole maximum(Whole a, Whole b) { return a > b ? a : b; }
WEFT_DEVICE Whole minimum(Whole a, Whole b) { return a < b ? a : b; }
WEFT_DEVICE Whole abs(Whole x) { return Whole(x.raw < 0 ? -x.raw : x.raw); }
WEFT_DEVICE Whole sign(Whole x) { return Whole((x.raw > 0) - (x.raw < 0)); }
WEFT_DEVICE Whole floor(Whole x) { return x; }
WEFT_DEVICE Whole ceil(Whole x) { return x; }
WEFT_DEVICE Whole rint(Whole x) { return x; }
WEFT_DEVICE Whole trunc(Whole x) { return x; }
/// b, or 1 where a division by b traps or is simple: where it is 0 or -1.
WEFT_DEVICE int64_t safe_divisor(Whole b) { return ((b.raw == 0) | (b.raw == -1)) ? 1 : b.raw; }
WEFT_DEVICE Whole quotient(Whole a, Whole b) {
  const int64_t q = a.raw / safe_divisor(b);
  return select(b.raw == 0, b, select(b.raw == -1, -a, Whole(q)));
}
WEFT_DEVICE Whole fmod(Whole a, Whole b) { return Whole(a.raw % safe_divisor(b)); }
/// A negative exponent gives 0, except for the bases 1 and -1.
WEFT_DEVICE Whole pow(Whole base, Whole exponent) {
  int64_t e = exponent.raw;
  if (e < 0) {
    if (base.raw == 1) return base;
    return Whole(base.raw != -1 ? 0 : ((e & 1) != 0 ? -1 : 1));
  }
  Whole result(1);
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
WEFT_DEVICE Whole lift(int64_t x) { return Whole(x); }
template <class C>
WEFT_DEVICE C lower(C x) {
  return x;
}
WEFT_DEVICE int64_t lower(Whole x) { return x.raw; }

}  // namespace weft::portable
