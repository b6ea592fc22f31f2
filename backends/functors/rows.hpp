// The pointwise ops. A row makes the public function and the method, the record, the kernels of every backend, what
// weft::map calls, the tests, the benchmark and the documentation. The functor is the op's formula with its gradients:
// unary.hpp, binary.hpp, ternary.hpp, compare.hpp.
//
// Kinds say what becomes of integers and bool:
//   floating   they are computed in float32
//   numeric    integers keep their dtype; bool is refused
//   division   as numeric, and integers must not be divided by 0
//   counting   integers keep their dtype; bool counts as int64
//   any        integers and bool keep their dtype
#pragma once

// clang-format off
// One operand: name, functor, kind, range of sample inputs, document.
#define WEFT_UNARY_OPS(X) \
  X(neg, Neg, numeric, -3.0, 3.0, "-x") \
  X(abs, Abs, any, -3.0, 3.0, "|x|; the gradient at 0 is 0") \
  X(sign, Sign, any, -3.0, 3.0, "-1, 0 or 1; NaN stays NaN") \
  X(square, Square, counting, -3.0, 3.0, "x * x; bool gives int64") \
  X(floor, Floor, any, -3.0, 3.0, "the largest integer not above x") \
  X(ceil, Ceil, any, -3.0, 3.0, "the smallest integer not below x") \
  X(round, Round, any, -3.0, 3.0, "the nearest integer, ties to even") \
  X(trunc, Trunc, any, -3.0, 3.0, "x without its fraction") \
  X(reciprocal, Reciprocal, floating, 0.5, 3.0, "1 / x") \
  X(sqrt, Sqrt, floating, 0.1, 4.0, "the square root; NaN below 0") \
  X(rsqrt, Rsqrt, floating, 0.1, 4.0, "1 / sqrt(x)") \
  X(exp, Exp, floating, -3.0, 3.0, "e to the power x") \
  X(expm1, Expm1, floating, -1.0, 1.0, "exp(x) - 1, exact near 0") \
  X(log, Log, floating, 0.1, 4.0, "the natural logarithm; NaN below 0, -inf at 0") \
  X(log1p, Log1p, floating, -0.5, 2.0, "log(1 + x), exact near 0") \
  X(sin, Sin, floating, -3.0, 3.0, "the sine of x in radians") \
  X(cos, Cos, floating, -3.0, 3.0, "the cosine of x in radians") \
  X(tan, Tan, floating, -1.2, 1.2, "the tangent of x in radians") \
  X(tanh, Tanh, floating, -3.0, 3.0, "the hyperbolic tangent") \
  X(erf, Erf, floating, -2.0, 2.0, "the error function") \
  X(sigmoid, Sigmoid, floating, -3.0, 3.0, "1 / (1 + exp(-x))") \
  X(relu, Relu, any, -3.0, 3.0, "max(x, 0); the gradient at 0 is 0, NaN stays NaN") \
  X(silu, Silu, floating, -3.0, 3.0, "x * sigmoid(x) (Elfwing et al. 2017); -inf gives -0") \
  X(softplus, Softplus, floating, -3.0, 3.0, "log(1 + exp(x)) without overflow") \
  X(gelu_erf, GeluErf, floating, -3.0, 3.0, "x * Phi(x), the Gaussian error linear unit (Hendrycks and Gimpel 2016)") \
  X(gelu_tanh, GeluTanh, floating, -3.0, 3.0, "the tanh approximation of gelu (Hendrycks and Gimpel 2016)")

// Two operands: name, functor, kind, sample range of a, sample range of b, document.
#define WEFT_BINARY_OPS(X) \
  X(add, Add, any, -3.0, 3.0, -3.0, 3.0, "a + b; logical or for bool") \
  X(sub, Sub, numeric, -3.0, 3.0, -3.0, 3.0, "a - b") \
  X(mul, Mul, any, -3.0, 3.0, -3.0, 3.0, "a * b; logical and for bool") \
  X(div, Div, floating, -3.0, 3.0, 0.5, 3.0, "a / b; integers are divided in float32") \
  X(pow, Pow, any, 0.2, 3.0, -2.0, 2.0, "a to the power b; the gradient for b where a = 0 and b >= 0 is 0") \
  X(maximum, Maximum, any, -3.0, 3.0, -3.0, 3.0, "the larger; NaN wins; equal operands share the gradient") \
  X(minimum, Minimum, any, -3.0, 3.0, -3.0, 3.0, "the smaller; NaN wins; equal operands share the gradient") \
  X(atan2, Atan2, floating, -3.0, 3.0, 0.5, 3.0, "the angle of the point (b, a) in radians") \
  X(floor_divide, FloorDivide, division, -3.0, 3.0, 0.5, 3.0, "a / b rounded down, exactly; its gradients are 0") \
  X(trunc_divide, TruncDivide, division, -3.0, 3.0, 0.5, 3.0, "a / b without its fraction; its gradients are 0") \
  X(remainder, Remainder, division, -3.0, 3.0, 0.5, 3.0, "a - b * floor_divide(a, b), without rounding; it has the sign of b") \
  X(fmod, Fmod, division, -3.0, 3.0, 0.5, 3.0, "a - b * trunc_divide(a, b), without rounding; it has the sign of a")

// Three operands: name, functor, kind, document.
#define WEFT_TERNARY_OPS(X) \
  X(clamp, Clamp, any, "min(max(a, b), c): a held between b and c; NaN in a stays NaN") \
  X(addcmul, Addcmul, any, "a + b * c") \
  X(lerp, Lerp, floating, "a + c * (b - a); a where c is 0, b where it is 1")

// Comparisons and logical ops of two operands, of any dtype, with a bool result and no gradient: name, functor,
// document.
#define WEFT_COMPARE_OPS(X) \
  X(eq, Equal, "a == b; NaN equals nothing") \
  X(ne, NotEqual, "a != b") \
  X(lt, Less, "a < b") \
  X(le, LessEqual, "a <= b") \
  X(gt, Greater, "a > b") \
  X(ge, GreaterEqual, "a >= b") \
  X(logical_and, LogicalAnd, "a and b are both non-zero") \
  X(logical_or, LogicalOr, "a or b is non-zero") \
  X(logical_xor, LogicalXor, "exactly one of a and b is non-zero")
// clang-format on
