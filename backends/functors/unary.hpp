// The formulas of one operand, each with its gradient. The rows are in rows.hpp.
//
// A formula is generic over its value type V: a SIMD register on the CPU, float or double in CUDA and in C++ for
// OpenCL, and a symbolic tensor when a gradient must itself be differentiable. It may use + - * / and unary -,
// comparisons (which give V's mask), select(mask, a, b), V(constant), the functions of math.hpp, and no ternary.
//
// `gradient(g, s)` is g times the derivative; `s` is the op's input, or its output where `saves` says so.
//
// A functor with `holomorphic` also takes complex numbers. The caller conjugates f'(x) in the gradient, by
// conj(gradient(conj(g), s)), so no formula does.
#if !defined(WEFT_FUNCTORS_UNARY) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_UNARY

#include "math.hpp"
#include "special.hpp"

// clang-format off
namespace weft::WEFT_FUNCTORS {

struct Neg {
  enum { saves = saves_nothing, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return -x; }
  template <class V> static WEFT_FN V gradient(V g, V) { return -g; }
};
struct Conj {
  enum { saves = saves_nothing, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return conj(x); }
  template <class V> static WEFT_FN V gradient(V g, V) { return conj(g); }
};
struct Abs {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return abs(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * sign(x); }
};
struct Sign {
  enum { saves = saves_nothing };
  template <class V> static WEFT_FN V value(V x) { return sign(x); }
  template <class V> static WEFT_FN V gradient(V g, V) { return zero_like(g); }
};
struct Square {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return x * x; }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * (x + x); }
};
struct Floor {
  enum { saves = saves_nothing };
  template <class V> static WEFT_FN V value(V x) { return floor(x); }
  template <class V> static WEFT_FN V gradient(V g, V) { return zero_like(g); }
};
struct Ceil {
  enum { saves = saves_nothing };
  template <class V> static WEFT_FN V value(V x) { return ceil(x); }
  template <class V> static WEFT_FN V gradient(V g, V) { return zero_like(g); }
};
struct Round {
  enum { saves = saves_nothing };
  template <class V> static WEFT_FN V value(V x) { return rint(x); }
  template <class V> static WEFT_FN V gradient(V g, V) { return zero_like(g); }
};
struct Trunc {
  enum { saves = saves_nothing };
  template <class V> static WEFT_FN V value(V x) { return trunc(x); }
  template <class V> static WEFT_FN V gradient(V g, V) { return zero_like(g); }
};
struct Reciprocal {
  enum { saves = saves_output, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return V(1) / x; }
  template <class V> static WEFT_FN V gradient(V g, V y) { return -g * y * y; }
};
struct Sqrt {
  enum { saves = saves_output, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return sqrt(x); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return g / (y + y); }
};
struct Rsqrt {
  enum { saves = saves_output, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return V(1) / sqrt(x); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return V(-0.5) * g * y * y * y; }
};
struct Exp {
  enum { saves = saves_output, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return exp(x); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return g * y; }
};
struct Expm1 {
  enum { saves = saves_output, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return expm1(x); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return g * (y + V(1)); }
};
struct Log {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return log(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g / x; }
};
struct Log1p {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return log1p(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g / (x + V(1)); }
};
struct Sin {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return sin(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * cos(x); }
};
struct Cos {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return cos(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return -g * sin(x); }
};
struct Tan {
  enum { saves = saves_output, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return tan(x); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return g * (y * y + V(1)); }
};
struct Tanh {
  enum { saves = saves_output, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return tanh(x); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return g * (V(1) - y * y); }
};
struct Erf {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return erf(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * V(1.1283791670955126) * exp(-x * x); }
};
struct Sigmoid {
  enum { saves = saves_output, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return V(1) / (V(1) + exp(-x)); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return g * y * (V(1) - y); }
};
struct Relu {
  enum { saves = saves_output };
  template <class V> static WEFT_FN V value(V x) { return select(x < zero_like(x), zero_like(x), x); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return select(y <= zero_like(y), zero_like(g), g); }
};
struct Silu {
  enum { saves = saves_input };
  // -inf * 0 would be NaN, hence the select.
  template <class V> static WEFT_FN V value(V x) {
    return select(x < V(-1e9), V(-0.0), x / (V(1) + exp(-x)));
  }
  template <class V> static WEFT_FN V gradient(V g, V x) {
    const V s = sigmoid(x);
    const V finite = maximum(minimum(x, V(1e9)), V(-1e9));
    return g * s * (V(1) + finite * (V(1) - s));
  }
};
struct Softplus {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) {
    return select(x > V(0), x, zero_like(x)) + log1p(exp(-abs(x)));
  }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * sigmoid(x); }
};
struct GeluErf {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) {
    return select(x < V(-40), V(-0.0), V(0.5) * x * (V(1) + erf(x * V(0.70710678118654752))));
  }
  template <class V> static WEFT_FN V gradient(V g, V input) {
    const V x = maximum(minimum(input, V(40)), V(-40));  // beyond, infinity times 0 would be NaN
    const V phi = V(0.5) * (V(1) + erf(x * V(0.70710678118654752)));
    return g * (phi + x * V(0.39894228040143268) * exp(V(-0.5) * x * x));
  }
};
struct GeluTanh {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) {
    const V t = tanh(V(0.79788456080286536) * (x + V(0.044715) * x * x * x));
    return select(x < V(-40), V(-0.0), V(0.5) * x * (V(1) + t));
  }
  template <class V> static WEFT_FN V gradient(V g, V input) {
    const V x = maximum(minimum(input, V(40)), V(-40));
    const V t = tanh(V(0.79788456080286536) * (x + V(0.044715) * x * x * x));
    const V slope = V(0.79788456080286536) * (V(1) + V(0.134145) * x * x);
    return g * (V(0.5) * (V(1) + t) + V(0.5) * x * (V(1) - t * t) * slope);
  }
};
struct Exp2 {
  enum { saves = saves_output, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return exp2(x); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return g * y * V(0.69314718055994531); }
};
struct Log2 {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return log2(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g / (x * V(0.69314718055994531)); }
};
struct Log10 {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return log10(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g / (x * V(2.3025850929940457)); }
};
struct Asin {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return asin(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g / sqrt((V(1) - x) * (V(1) + x)); }
};
struct Acos {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return acos(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return -g / sqrt((V(1) - x) * (V(1) + x)); }
};
struct Atan {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return atan(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g / (V(1) + x * x); }
};
struct Sinh {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return sinh(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * cosh(x); }
};
struct Cosh {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return cosh(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * sinh(x); }
};
struct Asinh {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return asinh(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g / sqrt(V(1) + x * x); }
};
struct Acosh {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return acosh(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g / (sqrt(x - V(1)) * sqrt(x + V(1))); }
};
struct Atanh {
  enum { saves = saves_input, holomorphic = 1 };
  template <class V> static WEFT_FN V value(V x) { return atanh(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g / ((V(1) - x) * (V(1) + x)); }
};
struct Erfc {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return erfc(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * V(-1.1283791670955126) * exp(-x * x); }
};
struct Erfinv {
  enum { saves = saves_output };
  template <class V> static WEFT_FN V value(V x) { return erfinv(x); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return g * V(0.88622692545275801) * exp(y * y); }
};
struct Ndtri {
  enum { saves = saves_output };
  template <class V> static WEFT_FN V value(V x) { return ndtri(x); }
  template <class V> static WEFT_FN V gradient(V g, V y) { return g * V(2.5066282746310005) * exp(V(0.5) * y * y); }
};
struct Lgamma {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return lgamma(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * digamma(x); }
};
struct Digamma {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return digamma(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * trigamma(x); }
};
struct I0 {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return i0(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * i1(x); }
};
struct I0e {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return i0e(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * (i1e(x) - sign(x) * i0e(x)); }
};
struct I1 {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return i1(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) {
    const V divisor = select(x == zero_like(x), V(1), x);  // i1(x) / x is 1/2 at 0
    return g * (i0(x) - select(x == zero_like(x), V(0.5), i1(x) / divisor));
  }
};
struct I1e {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return i1e(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) {
    const V divisor = select(x == zero_like(x), V(1), x);
    return g * (i0e(x) - sign(x) * i1e(x) - select(x == zero_like(x), V(0.5), i1e(x) / divisor));
  }
};
struct Sinc {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) {
    const V t = x * V(3.1415926535897932);
    return select(x == zero_like(x), V(1), sin(t) / t);
  }
  // The derivative for t = pi x is (cos t - sin t / t) / t, which cancels near 0: there its series, of
  // (-1)^k 2k / (2k + 1)! t^(2k - 1).
  template <class V> static WEFT_FN V gradient(V g, V x) {
    const V t = x * V(3.1415926535897932), z = t * t;
    V series = V(-1.4797143443923793e-16);
    series = V(4.498331606952833e-14) + z * series;
    series = V(-1.0706029224547743e-11) + z * series;
    series = V(1.9270852604185937e-09) + z * series;
    series = V(-2.505210838544172e-07) + z * series;
    series = V(2.2045855379188714e-05) + z * series;
    series = V(-0.0011904761904761906) + z * series;
    series = V(0.03333333333333333) + z * series;
    series = V(-0.3333333333333333) + z * series;
    const V far = select(abs(t) < V(1), V(1), t);
    const V slope = select(abs(t) < V(1), t * series, (cos(far) - sin(far) / far) / far);
    return g * V(3.1415926535897932) * slope;
  }
};
struct Frac {
  enum { saves = saves_nothing };
  template <class V> static WEFT_FN V value(V x) { return x - trunc(x); }
  template <class V> static WEFT_FN V gradient(V g, V) { return g; }
};
struct Deg2rad {
  enum { saves = saves_nothing };
  template <class V> static WEFT_FN V value(V x) { return x * V(0.017453292519943295); }
  template <class V> static WEFT_FN V gradient(V g, V) { return g * V(0.017453292519943295); }
};
struct Rad2deg {
  enum { saves = saves_nothing };
  template <class V> static WEFT_FN V value(V x) { return x * V(57.295779513082321); }
  template <class V> static WEFT_FN V gradient(V g, V) { return g * V(57.295779513082321); }
};
struct Logsigmoid {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return minimum(x, zero_like(x)) - log1p(exp(-abs(x))); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * sigmoid(-x); }
};
struct Mish {
  enum { saves = saves_input };
  // tanh(log(1 + e)) of e = exp(x) is n / (n + 2) with n = e (e + 2).
  template <class V> static WEFT_FN V value(V x) {
    const V e = exp(minimum(x, V(20))), n = e * (e + V(2));
    return select(x < V(-1e9), V(-0.0), select(x > V(20), x, x * (n / (n + V(2)))));
  }
  template <class V> static WEFT_FN V gradient(V g, V input) {
    const V x = maximum(minimum(input, V(20)), V(-1e9));
    const V e = exp(x), n = e * (e + V(2)), t = n / (n + V(2));
    return g * (t + x * (e / (e + V(1))) * (V(1) - t) * (V(1) + t));
  }
};
struct Relu6 {
  enum { saves = saves_output };
  template <class V> static WEFT_FN V value(V x) { return minimum(maximum(x, V(0)), V(6)); }
  template <class V> static WEFT_FN V gradient(V g, V y) {
    return select(y <= zero_like(y), zero_like(g), select(y >= V(6), zero_like(g), g));
  }
};
struct Hardsigmoid {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return minimum(maximum(x + V(3), V(0)), V(6)) / V(6); }
  template <class V> static WEFT_FN V gradient(V g, V x) {
    return select(x <= V(-3), zero_like(g), select(x >= V(3), zero_like(g), g / V(6)));
  }
};
struct Hardswish {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) {
    return select(x <= V(-3), V(-0.0), x * (minimum(maximum(x + V(3), V(0)), V(6)) / V(6)));
  }
  template <class V> static WEFT_FN V gradient(V g, V x) {
    return select(x <= V(-3), zero_like(g), select(x >= V(3), g, g * (x / V(3) + V(0.5))));
  }
};
struct Selu {
  enum { saves = saves_output };
  template <class V> static WEFT_FN V value(V x) {
    return select(x > zero_like(x), V(1.0507009873554805) * x, V(1.7580993408473769) * expm1(x));
  }
  template <class V> static WEFT_FN V gradient(V g, V y) {
    return select(y > zero_like(y), V(1.0507009873554805) * g, g * (y + V(1.7580993408473769)));
  }
};
struct Tanhshrink {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return x - tanh(x); }
  template <class V> static WEFT_FN V gradient(V g, V x) { return g * tanh(x) * tanh(x); }
};
struct Softsign {
  enum { saves = saves_input };
  template <class V> static WEFT_FN V value(V x) { return x / (V(1) + abs(x)); }
  template <class V> static WEFT_FN V gradient(V g, V x) {
    const V d = V(1) + abs(x);
    return g / (d * d);
  }
};

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
