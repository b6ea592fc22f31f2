// Pointwise ops of three operands of one dtype. The rules of unary.hpp and binary.hpp hold.
// Columns: name, functor, kind, document.
// clang-format off
#define WEFT_TERNARY_OPS(X) \
  X(clamp, Clamp, numeric, "min(max(a, b), c): a held between b and c; NaN in a stays NaN") \
  X(addcmul, Addcmul, numeric, "a + b * c") \
  X(lerp, Lerp, floating, "a + c * (b - a); a where c is 0, b where it is 1")

#if !defined(WEFT_ROWS_ALONE)
#if !defined(WEFT_FUNCTORS_TERNARY) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_TERNARY

#include "math.hpp"

namespace weft::WEFT_FUNCTORS {

struct Clamp {
  enum { uses_a = 1, uses_b = 1, uses_c = 1 };
  template <class V> static WEFT_FN V value(V a, V b, V c) { return minimum(maximum(a, b), c); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V& c) {
    return select(a < b, zero_like(g), select(a > c, zero_like(g), g));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V& c) {
    return select(a < b, select(b < c, g, zero_like(g)), zero_like(g));
  }
  template <class V> static V gradient_c(V g, const V& a, const V& b, const V& c) {
    return select(maximum(a, b) > c, g, zero_like(g));
  }
};
struct Addcmul {
  enum { uses_a = 0, uses_b = 1, uses_c = 1 };
  template <class V> static WEFT_FN V value(V a, V b, V c) { return a + b * c; }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return g; }
  template <class V> static V gradient_b(V g, const V&, const V&, const V& c) { return take(g) * c; }
  template <class V> static V gradient_c(V g, const V&, const V& b, const V&) { return take(g) * b; }
};
struct Lerp {
  enum { uses_a = 1, uses_b = 1, uses_c = 1 };
  // From the nearer end, so that 0 gives a and 1 gives b.
  template <class V> static WEFT_FN V value(V a, V b, V c) {
    const V step = b - a;
    return select(abs(c) < V(0.5), a + c * step, b - step * (V(1) - c));
  }
  template <class V> static V gradient_a(V g, const V&, const V&, const V& c) { return g * (V(1) - c); }
  template <class V> static V gradient_b(V g, const V&, const V&, const V& c) { return take(g) * c; }
  template <class V> static V gradient_c(V g, const V& a, const V& b, const V&) { return g * (b - a); }
};

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
#endif
