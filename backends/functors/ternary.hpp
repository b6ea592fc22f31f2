// The formulas of three operands of one dtype. The rules of unary.hpp and binary.hpp hold.
#if !defined(WEFT_FUNCTORS_TERNARY) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_TERNARY

#include "math.hpp"

// clang-format off
namespace weft::WEFT_FUNCTORS {

struct Clamp {
  enum { gradient_a_reads = reads_a | reads_b | reads_c, gradient_b_reads = reads_a | reads_b | reads_c, gradient_c_reads = reads_a | reads_b | reads_c };
  template <class V> static WEFT_FN V value(V a, V b, V c) { return minimum(maximum(a, b), c); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V& c) {
    return select(a < b, zero_like(g), select(a > c, zero_like(g), g));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V& c) {
    return select(a < b, select(b <= c, g, zero_like(g)), zero_like(g));
  }
  template <class V> static V gradient_c(V g, const V& a, const V& b, const V& c) {
    return select(maximum(a, b) > c, g, zero_like(g));
  }
};
struct Addcmul {
  enum { gradient_a_reads = reads_nothing, gradient_b_reads = reads_c, gradient_c_reads = reads_b, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V a, V b, V c) { return a + b * c; }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return g; }
  template <class V> static V gradient_b(V g, const V&, const V&, const V& c) { return take(g) * c; }
  template <class V> static V gradient_c(V g, const V&, const V& b, const V&) { return take(g) * b; }
};
struct Lerp {
  enum { gradient_a_reads = reads_c, gradient_b_reads = reads_c, gradient_c_reads = reads_a | reads_b };
  // From the nearer end, so that 0 gives a and 1 gives b.
  template <class V> static WEFT_FN V value(V a, V b, V c) {
    const V step = b - a;
    return select(abs(c) < V(0.5), a + c * step, b - step * (V(1) - c));
  }
  template <class V> static V gradient_a(V g, const V&, const V&, const V& c) { return g * (V(1) - c); }
  template <class V> static V gradient_b(V g, const V&, const V&, const V& c) { return take(g) * c; }
  template <class V> static V gradient_c(V g, const V& a, const V& b, const V&) { return g * (b - a); }
};
struct Addcdiv {
  enum { gradient_a_reads = reads_nothing, gradient_b_reads = reads_c, gradient_c_reads = reads_b | reads_c, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V a, V b, V c) { return a + b / c; }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return g; }
  template <class V> static V gradient_b(V g, const V&, const V&, const V& c) { return take(g) / c; }
  template <class V> static V gradient_c(V g, const V&, const V& b, const V& c) { return -g * (b / c) / c; }
};
struct Threshold {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_nothing, gradient_c_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V x, V edge, V other) { return select(x <= edge, other, x); }
  template <class V> static V gradient_a(V g, const V& x, const V& edge, const V&) {
    return select(x <= edge, zero_like(g), g);
  }
  template <class V> static V gradient_b(V g, const V&, const V&, const V&) { return zeros_like(g); }
  template <class V> static V gradient_c(V g, const V& x, const V& edge, const V&) {
    return select(x <= edge, g, zero_like(g));
  }
};
struct Hardtanh {
  enum { gradient_a_reads = reads_a | reads_b | reads_c, gradient_b_reads = reads_a | reads_b | reads_c, gradient_c_reads = reads_a | reads_b | reads_c };
  template <class V> static WEFT_FN V value(V x, V low, V high) { return minimum(maximum(x, low), high); }
  template <class V> static V gradient_a(V g, const V& x, const V& low, const V& high) {
    return select(x <= low, zero_like(g), select(x >= high, zero_like(g), g));
  }
  template <class V> static V gradient_b(V g, const V& x, const V& low, const V& high) {
    return select(x <= low, select(low < high, g, zero_like(g)), zero_like(g));
  }
  template <class V> static V gradient_c(V g, const V& x, const V& low, const V& high) {
    return select(maximum(x, low) >= high, g, zero_like(g));
  }
};

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
