// Pointwise ops of two operands of one dtype. The rules of unary.hpp hold.
//
// `gradient_a(g, a, b, y)` and `gradient_b` are formulas over tensors; `take(g)` lets the result use g's memory.
// Each op says which of a, b and its output y its gradients read (uses_*), so that nothing else is kept alive.
// Columns: name, functor, kind, sample range of a, sample range of b, document.
// clang-format off
#define WEFT_BINARY_OPS(X) \
  X(add, Add, numeric, -3.0, 3.0, -3.0, 3.0, "a + b; logical or for bool") \
  X(sub, Sub, numeric, -3.0, 3.0, -3.0, 3.0, "a - b") \
  X(mul, Mul, numeric, -3.0, 3.0, -3.0, 3.0, "a * b; logical and for bool") \
  X(div, Div, floating, -3.0, 3.0, 0.5, 3.0, "a / b; integers are divided in float32") \
  X(pow, Pow, numeric, 0.2, 3.0, -2.0, 2.0, "a to the power b; the gradient for b where a = 0 is 0") \
  X(maximum, Maximum, numeric, -3.0, 3.0, -3.0, 3.0, "the larger; NaN wins; equal operands share the gradient") \
  X(minimum, Minimum, numeric, -3.0, 3.0, -3.0, 3.0, "the smaller; NaN wins; equal operands share the gradient") \
  X(atan2, Atan2, floating, -3.0, 3.0, 0.5, 3.0, "the angle of the point (b, a) in radians")

#if !defined(WEFT_ROWS_ALONE)
#if !defined(WEFT_FUNCTORS_BINARY) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_BINARY

#include <weft/backends/functors/math.hpp>

namespace weft::WEFT_FUNCTORS {

struct Add {
  enum { uses_a = 0, uses_b = 0, uses_y = 0 };
  template <class V> static WEFT_FN V value(V a, V b) { return a + b; }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return g; }
  template <class V> static V gradient_b(V g, const V&, const V&, const V&) { return g; }
};
struct Sub {
  enum { uses_a = 0, uses_b = 0, uses_y = 0 };
  template <class V> static WEFT_FN V value(V a, V b) { return a - b; }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return g; }
  template <class V> static V gradient_b(V g, const V&, const V&, const V&) { return -take(g); }
};
struct Mul {
  enum { uses_a = 1, uses_b = 1, uses_y = 0 };
  template <class V> static WEFT_FN V value(V a, V b) { return a * b; }
  template <class V> static V gradient_a(V g, const V&, const V& b, const V&) { return take(g) * b; }
  template <class V> static V gradient_b(V g, const V& a, const V&, const V&) { return take(g) * a; }
};
struct Div {
  enum { uses_a = 0, uses_b = 1, uses_y = 1 };
  template <class V> static WEFT_FN V value(V a, V b) { return a / b; }
  template <class V> static V gradient_a(V g, const V&, const V& b, const V&) { return take(g) / b; }
  template <class V> static V gradient_b(V g, const V&, const V& b, const V& y) { return -g * y / b; }
};
struct Pow {
  enum { uses_a = 1, uses_b = 1, uses_y = 1 };
  template <class V> static WEFT_FN V value(V a, V b) { return pow(a, b); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    return select(b == zero_like(b), zero_like(a), g * b * pow(a, b - V(1)));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V& y) {
    return g * select(a == zero_like(a), select(b >= zero_like(b), zero_like(y), y), y * log(a));
  }
};
struct Maximum {
  enum { uses_a = 1, uses_b = 1, uses_y = 0 };
  template <class V> static WEFT_FN V value(V a, V b) { return maximum(a, b); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(a < b, zero_like(g), g));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(b < a, zero_like(g), g));
  }
};
struct Minimum {
  enum { uses_a = 1, uses_b = 1, uses_y = 0 };
  template <class V> static WEFT_FN V value(V a, V b) { return minimum(a, b); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(b < a, zero_like(g), g));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(a < b, zero_like(g), g));
  }
};
struct Atan2 {
  enum { uses_a = 1, uses_b = 1, uses_y = 0 };
  template <class V> static WEFT_FN V value(V a, V b) { return atan2(a, b); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) { return g * b / (a * a + b * b); }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) { return -g * a / (a * a + b * b); }
};

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
#endif
