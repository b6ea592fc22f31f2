// The formulas of two operands of one dtype. The rules of unary.hpp hold.
//
// `gradient_a(g, a, b, y)` and `gradient_b` are formulas over tensors; `take(g)` lets the result use g's memory. Each
// says which of a, b and the output y it reads, so that nothing else is kept alive.
#if !defined(WEFT_FUNCTORS_BINARY) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_BINARY

#include "math.hpp"

// clang-format off
namespace weft::WEFT_FUNCTORS {

struct Add {
  enum { gradient_a_reads = reads_nothing, gradient_b_reads = reads_nothing, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V a, V b) { return a + b; }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return g; }
  template <class V> static V gradient_b(V g, const V&, const V&, const V&) { return g; }
};
struct Sub {
  enum { gradient_a_reads = reads_nothing, gradient_b_reads = reads_nothing, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V a, V b) { return a - b; }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return g; }
  template <class V> static V gradient_b(V g, const V&, const V&, const V&) { return -take(g); }
};
struct Mul {
  enum { gradient_a_reads = reads_b, gradient_b_reads = reads_a, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V a, V b) { return a * b; }
  template <class V> static V gradient_a(V g, const V&, const V& b, const V&) { return take(g) * b; }
  template <class V> static V gradient_b(V g, const V& a, const V&, const V&) { return take(g) * a; }
};
struct Div {
  enum { gradient_a_reads = reads_b, gradient_b_reads = reads_b | reads_y, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V a, V b) { return a / b; }
  template <class V> static V gradient_a(V g, const V&, const V& b, const V&) { return take(g) / b; }
  template <class V> static V gradient_b(V g, const V&, const V& b, const V& y) { return -g * y / b; }
};
struct FloorDivide {
  enum { gradient_a_reads = reads_nothing, gradient_b_reads = reads_nothing };
  template <class V> static WEFT_FN V value(V a, V b) {
    const V zero(0), one(1), rest = fmod(a, b);
    if constexpr (IsWhole<V>::value) {
      return quotient(a, b) - V(points_away(rest, b));
    } else {  // (a - rest) / b is whole but for its rounding
      const V excess = select(b < zero, select(rest > zero, one, zero), select(rest < zero, one, zero));
      const V exact = a / b, whole = (a - rest) / b - excess, below = floor(whole);
      const V nearest = below + select(whole - below > V(0.5), one, zero);
      return select(b == zero, exact, select(whole == zero, zero * exact, nearest));
    }
  }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return zeros_like(g); }
  template <class V> static V gradient_b(V g, const V&, const V&, const V&) { return zeros_like(g); }
};
struct TruncDivide {
  enum { gradient_a_reads = reads_nothing, gradient_b_reads = reads_nothing };
  template <class V> static WEFT_FN V value(V a, V b) {
    if constexpr (IsWhole<V>::value) return quotient(a, b);
    else return trunc(a / b);
  }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return zeros_like(g); }
  template <class V> static V gradient_b(V g, const V&, const V&, const V&) { return zeros_like(g); }
};
// Of numbers; tensors and dual numbers have the op.
template <class V> V floor_divide(V a, V b) { return FloorDivide::value(a, b); }
template <class V> V trunc_divide(V a, V b) { return TruncDivide::value(a, b); }
struct Remainder {
  enum { gradient_a_reads = reads_nothing, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) {
    const V zero(0), rest = fmod(a, b), other(rest + b);
    if constexpr (IsWhole<V>::value) return rest + kept_if(points_away(rest, b), b);
    const V moved = select(b < zero, select(rest > zero, other, rest), select(rest < zero, other, rest));
    return select(rest == zero, select(b < zero, V(-0.0), zero), moved);
  }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return g; }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) { return -g * floor_divide(a, b); }
};
struct Fmod {
  enum { gradient_a_reads = reads_nothing, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) { return fmod(a, b); }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return g; }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) { return -g * trunc_divide(a, b); }
};
struct Pow {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b | reads_y, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V a, V b) { return pow(a, b); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    // An exponent of 0 gives 0 without a division by a, which may be 0.
    return g * (b * pow(a, select(b == zero_like(b), V(1), b) - V(1)));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V& y) {
    const V slope = y * log(select(a == zero_like(a), V(1), a));
    return g * select(a == zero_like(a), select(real_part(b) >= zero_like(b), zero_like(y), -y), slope);
  }
};
struct Maximum {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) { return maximum(a, b); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(a < b, zero_like(g), g));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(b < a, zero_like(g), g));
  }
};
struct Minimum {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) { return minimum(a, b); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(b < a, zero_like(g), g));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(a < b, zero_like(g), g));
  }
};
struct Atan2 {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) { return atan2(a, b); }
  // x / (x² + y²) of the point (x, y), brought to the size of 1 so that no square leaves the range; 0 at the origin
  // and far out.
  template <class V> static V share(const V& x, const V& y) {
    const V longest = maximum(abs(x), abs(y)), size = select(longest == zero_like(x), V(1), longest);
    const V u = x / size, v = y / size, square = u * u + v * v;
    const V inside = u / select(square == zero_like(square), V(1), square) / size;
    const V bounded = select(size == V(__builtin_inff()), zero_like(size), inside);
    return select(longest == zero_like(x), zero_like(x), bounded);
  }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) { return take(g) * share(b, a); }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) { return -take(g) * share(a, b); }
};
struct Fmax {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) { return select(a == a, select(b == b, maximum(a, b), a), b); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(a > b, g, select(b == b, zero_like(g), g)));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(a > b, zero_like(g), select(b == b, g, zero_like(g))));
  }
};
struct Fmin {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) { return select(a == a, select(b == b, minimum(a, b), a), b); }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(a < b, g, select(b == b, zero_like(g), g)));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) {
    return select(a == b, V(0.5) * g, select(a < b, zero_like(g), select(b == b, g, zero_like(g))));
  }
};
struct Hypot {
  enum { gradient_a_reads = reads_a | reads_y, gradient_b_reads = reads_b | reads_y };
  template <class V> static WEFT_FN V value(V a, V b) { return hypot(a, b); }
  // 0 at the origin, as are its own gradients: nothing is divided by 0 there.
  template <class V> static V along(const V& g, const V& x, const V& y) {
    const V divisor = select(y == zero_like(y), V(1), y);
    return select(y == zero_like(y), zero_like(g), g * (x / divisor));
  }
  template <class V> static V gradient_a(V g, const V& a, const V&, const V& y) { return along(g, a, y); }
  template <class V> static V gradient_b(V g, const V&, const V& b, const V& y) { return along(g, b, y); }
};
struct Copysign {
  enum { gradient_a_reads = reads_a | reads_y, gradient_b_reads = reads_nothing };
  template <class V> static WEFT_FN V value(V a, V b) { return copysign(a, b); }
  template <class V> static V gradient_a(V g, const V& a, const V&, const V& y) { return take(g) * sign(a) * sign(y); }
  template <class V> static V gradient_b(V g, const V&, const V&, const V&) { return zeros_like(g); }
};
struct Logaddexp {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) {
    return select(a == b, a + V(0.69314718055994531), maximum(a, b) + log1p(exp(-abs(a - b))));
  }
  // Equal infinities share.
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    return g * sigmoid(select(a == b, zero_like(a), a - b));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) {
    return g * sigmoid(select(a == b, zero_like(a), b - a));
  }
};
struct Logaddexp2 {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) {
    return select(a == b, a + V(1), maximum(a, b) + log1p(exp2(-abs(a - b))) * V(1.4426950408889634));
  }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    return g * sigmoid(select(a == b, zero_like(a), (a - b) * V(0.69314718055994531)));
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) {
    return g * sigmoid(select(a == b, zero_like(a), (b - a) * V(0.69314718055994531)));
  }
};
struct Xlogy {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) {
    return select(b != b, b, select(a == zero_like(a), zero_like(a), a * log(b)));
  }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    const V base = select(a == zero_like(a), select(b <= zero_like(b), V(1), b), b);
    return g * log(base);
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) {
    const V slope = g * a / select(a == zero_like(a), select(b == zero_like(b), V(1), b), b);
    return select(a == zero_like(a), select(b == zero_like(b), zero_like(g), slope), slope);
  }
};
struct Xlog1py {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V a, V b) {
    return select(b != b, b, select(a == zero_like(a), zero_like(a), a * log1p(b)));
  }
  template <class V> static V gradient_a(V g, const V& a, const V& b, const V&) {
    const V base = select(a == zero_like(a), select(b <= V(-1), zero_like(b), b), b);
    return g * log1p(base);
  }
  template <class V> static V gradient_b(V g, const V& a, const V& b, const V&) {
    const V slope = g * a / select(a == zero_like(a), select(b == V(-1), V(1), b + V(1)), b + V(1));
    return select(a == zero_like(a), select(b == V(-1), zero_like(g), slope), slope);
  }
};
struct Heaviside {
  enum { gradient_a_reads = reads_nothing, gradient_b_reads = reads_a };
  template <class V> static WEFT_FN V value(V a, V b) {
    return select(a == zero_like(a), b, select(a < zero_like(a), V(0), select(a > zero_like(a), V(1), a)));
  }
  template <class V> static V gradient_a(V g, const V&, const V&, const V&) { return zeros_like(g); }
  template <class V> static V gradient_b(V g, const V& a, const V&, const V&) {
    return select(a == zero_like(a), g, zero_like(g));
  }
};
struct LeakyRelu {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a };
  template <class V> static WEFT_FN V value(V x, V slope) { return select(x > zero_like(x), x, x * slope); }
  template <class V> static V gradient_a(V g, const V& x, const V& slope, const V&) {
    return select(x > zero_like(x), g, g * slope);
  }
  template <class V> static V gradient_b(V g, const V& x, const V&, const V&) {
    return select(x > zero_like(x), zero_like(g), g * x);
  }
};
/// min(x, 0): exponentials of positive x, which no result uses, could overflow.
template <class V> V negative_part(const V& x) { return select(x > zero_like(x), zero_like(x), x); }
struct Elu {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a };
  template <class V> static WEFT_FN V value(V x, V alpha) { return select(x > zero_like(x), x, alpha * expm1(x)); }
  template <class V> static V gradient_a(V g, const V& x, const V& alpha, const V&) {
    return select(x > zero_like(x), g, g * alpha * exp(negative_part(x)));
  }
  template <class V> static V gradient_b(V g, const V& x, const V&, const V&) { return g * expm1(negative_part(x)); }
};
struct Celu {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V x, V alpha) {
    return select(x > zero_like(x), x, alpha * expm1(x / alpha));
  }
  template <class V> static V gradient_a(V g, const V& x, const V& alpha, const V&) {
    return select(x > zero_like(x), g, g * exp(negative_part(x) / alpha));
  }
  template <class V> static V gradient_b(V g, const V& x, const V& alpha, const V&) {
    const V z = negative_part(x) / alpha;
    return g * (expm1(z) - z * exp(z));
  }
};
struct Softshrink {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a | reads_b };
  template <class V> static WEFT_FN V value(V x, V width) {
    return select(x > width, x - width, select(x < -width, x + width, x * V(0)));
  }
  template <class V> static V gradient_a(V g, const V& x, const V& width, const V&) {
    return select(x > width, g, select(x < -width, g, zero_like(g)));
  }
  template <class V> static V gradient_b(V g, const V& x, const V& width, const V&) {
    return select(x > width, -g, select(x < -width, g, zero_like(g)));
  }
};
struct Hardshrink {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_nothing };
  template <class V> static WEFT_FN V value(V x, V width) {
    return select(x >= -width, select(x <= width, V(0), x), x);
  }
  template <class V> static V gradient_a(V g, const V& x, const V& width, const V&) {
    return select(x >= -width, select(x <= width, zero_like(g), g), g);
  }
  template <class V> static V gradient_b(V g, const V&, const V&, const V&) { return zeros_like(g); }
};
struct Swiglu {
  enum { gradient_a_reads = reads_a | reads_b, gradient_b_reads = reads_a };
  template <class V> static WEFT_FN V value(V a, V b) {
    return select(a < V(-1e9), V(-0.0), a / (V(1) + exp(-a))) * b;
  }
  template <class V> static WEFT_FN V gradient_a(V g, const V& a, const V& b, const V&) {
    const V s = sigmoid(a);
    return g * b * s * (V(1) + maximum(minimum(a, V(1e9)), V(-1e9)) * (V(1) - s));
  }
  template <class V> static WEFT_FN V gradient_b(V g, const V& a, const V&, const V&) { return g * (maximum(a, V(-1e9)) * sigmoid(a)); }
};

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
