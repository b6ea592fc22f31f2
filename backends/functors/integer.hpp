// The formulas of two integers or bools, which have no gradient. Widths are those of the type that holds them.
#if !defined(WEFT_FUNCTORS_INTEGER) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_INTEGER

#include "math.hpp"

// clang-format off
namespace weft::WEFT_FUNCTORS {

struct BitwiseAnd {
  template <class T> static WEFT_FN Whole<T> value(Whole<T> a, Whole<T> b) { return Whole<T>(a.raw & b.raw); }
  static WEFT_FN Whole<bool> value(Whole<bool> a, Whole<bool> b) { return a * b; }
};
struct BitwiseOr {
  template <class T> static WEFT_FN Whole<T> value(Whole<T> a, Whole<T> b) { return Whole<T>(a.raw | b.raw); }
};
struct BitwiseXor {
  template <class T> static WEFT_FN Whole<T> value(Whole<T> a, Whole<T> b) { return Whole<T>(a.raw ^ b.raw); }
  static WEFT_FN Whole<bool> value(Whole<bool> a, Whole<bool> b) { return Whole<bool>((a.raw != 0) ^ (b.raw != 0)); }
};
/// Whether a shift by b leaves any bit in place.
template <class T> WEFT_FN bool shifts_within(Whole<T> b) { return (b.raw >= T(0)) & (b.raw < T(8 * sizeof(T))); }
struct BitwiseLeftShift {
  template <class T> static WEFT_FN Whole<T> value(Whole<T> a, Whole<T> b) {
    using Wide = typename Whole<T>::Wide;
    const bool within = shifts_within(b);
    return Whole<T>(within ? static_cast<Wide>(a.raw) << (within ? b.raw : T(0)) : Wide(0));
  }
};
struct BitwiseRightShift {
  template <class T> static WEFT_FN Whole<T> value(Whole<T> a, Whole<T> b) {
    const bool within = shifts_within(b);
    return Whole<T>(within ? a.raw >> (within ? b.raw : T(0)) : (a.raw < T(0) ? -1 : 0));
  }
};
/// |x|, which of the least number of a type is beyond it.
template <class T> WEFT_FN typename Whole<T>::Wide size_of(Whole<T> x) {
  using Wide = typename Whole<T>::Wide;
  const Wide bits = static_cast<Wide>(x.raw);
  return x.raw < T(0) ? Wide(0) - bits : bits;
}
/// Euclid's algorithm.
template <class T> WEFT_FN typename Whole<T>::Wide common_divisor(Whole<T> a, Whole<T> b) {
  using Wide = typename Whole<T>::Wide;
  Wide x = size_of(a), y = size_of(b);
  while (y != 0) {
    const Wide rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}
struct Gcd {
  template <class T> static WEFT_FN Whole<T> value(Whole<T> a, Whole<T> b) { return Whole<T>(common_divisor(a, b)); }
};
struct Lcm {
  template <class T> static WEFT_FN Whole<T> value(Whole<T> a, Whole<T> b) {
    using Wide = typename Whole<T>::Wide;
    const Wide divisor = common_divisor(a, b);
    if (divisor == 0) return Whole<T>(0);
    return Whole<T>(size_of(a) / divisor * size_of(b));
  }
};

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
