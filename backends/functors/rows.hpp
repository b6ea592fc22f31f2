// The pointwise ops. A row generates the public function and the method, the record, the kernels of every backend, the
// function for weft::map, the tests, the benchmark and the documentation. The functor is the op's formula with its
// gradients: unary.hpp, binary.hpp, ternary.hpp, compare.hpp.
//
// Kinds define the treatment of integers and bool:
//   floating   they are computed in float32
//   numeric    integers keep their dtype; bool is refused
//   division   as numeric, and integers must not be divided by 0
//   counting   integers keep their dtype; bool counts as int64
//   any        integers and bool keep their dtype
//   integers   as numeric, and floating-point numbers are refused
//   bits       as any, and floating-point numbers are refused
//
// Rows are separate from formulas, so that a changed formula rebuilds only kernels.
#pragma once

// clang-format off
// One operand: name, functor, kind, range of sample inputs, document.
#define WEFT_UNARY_OPS(X) \
  X(neg, Neg, numeric, -3.0, 3.0, "-x") \
  X(conj, Conj, any, -3.0, 3.0, "the complex conjugate; of real numbers a copy") \
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
  X(exp2, Exp2, floating, -3.0, 3.0, "2 to the power x") \
  X(log2, Log2, floating, 0.1, 4.0, "the logarithm to base 2; NaN below 0, -inf at 0") \
  X(log10, Log10, floating, 0.1, 4.0, "the logarithm to base 10; NaN below 0, -inf at 0") \
  X(sin, Sin, floating, -3.0, 3.0, "the sine of x in radians") \
  X(cos, Cos, floating, -3.0, 3.0, "the cosine of x in radians") \
  X(tan, Tan, floating, -1.2, 1.2, "the tangent of x in radians") \
  X(asin, Asin, floating, -0.9, 0.9, "the angle in [-pi/2, pi/2] whose sine is x; NaN beyond 1") \
  X(acos, Acos, floating, -0.9, 0.9, "the angle in [0, pi] whose cosine is x; NaN beyond 1") \
  X(atan, Atan, floating, -3.0, 3.0, "the angle in [-pi/2, pi/2] whose tangent is x") \
  X(sinh, Sinh, floating, -3.0, 3.0, "the hyperbolic sine") \
  X(cosh, Cosh, floating, -3.0, 3.0, "the hyperbolic cosine") \
  X(asinh, Asinh, floating, -3.0, 3.0, "the number whose hyperbolic sine is x") \
  X(acosh, Acosh, floating, 1.1, 4.0, "the number from 0 whose hyperbolic cosine is x; NaN below 1") \
  X(atanh, Atanh, floating, -0.9, 0.9, "the number whose hyperbolic tangent is x; NaN beyond 1") \
  X(tanh, Tanh, floating, -3.0, 3.0, "the hyperbolic tangent") \
  X(erf, Erf, floating, -2.0, 2.0, "the error function") \
  X(erfc, Erfc, floating, -2.0, 2.0, "1 - erf(x), exact where erf is near 1") \
  X(erfinv, Erfinv, floating, -0.9, 0.9, "the number whose error function is x; NaN beyond 1") \
  X(ndtri, Ndtri, floating, 0.05, 0.95, "the quantile x of the normal distribution; NaN outside [0, 1]") \
  X(lgamma, Lgamma, floating, 0.3, 4.0, "the logarithm of |Gamma(x)|; inf at 0, -1, -2 ...") \
  X(digamma, Digamma, floating, 3.0, 8.0, "the derivative of lgamma; -inf at 0, NaN at -1, -2 ...") \
  X(i0, I0, floating, -3.0, 3.0, "the modified Bessel function of order 0") \
  X(i0e, I0e, floating, -3.0, 3.0, "i0(x) * exp(-|x|)") \
  X(i1, I1, floating, -3.0, 3.0, "the modified Bessel function of order 1") \
  X(i1e, I1e, floating, -3.0, 3.0, "i1(x) * exp(-|x|)") \
  X(sinc, Sinc, floating, -3.0, 3.0, "sin(pi x) / (pi x); 1 at 0") \
  X(frac, Frac, floating, -3.0, 3.0, "x - trunc(x)") \
  X(deg2rad, Deg2rad, floating, -180.0, 180.0, "degrees in radians") \
  X(rad2deg, Rad2deg, floating, -3.0, 3.0, "radians in degrees") \
  X(sigmoid, Sigmoid, floating, -3.0, 3.0, "1 / (1 + exp(-x))") \
  X(relu, Relu, any, -3.0, 3.0, "max(x, 0); the gradient at 0 is 0, NaN stays NaN") \
  X(relu6, Relu6, any, -3.0, 8.0, "min(max(x, 0), 6); the gradient at 0 and 6 is 0, NaN stays NaN") \
  X(logsigmoid, Logsigmoid, floating, -3.0, 3.0, "log(sigmoid(x)) without overflow") \
  X(hardsigmoid, Hardsigmoid, floating, -4.0, 4.0, "min(max(x + 3, 0), 6) / 6") \
  X(hardswish, Hardswish, floating, -4.0, 4.0, "x * hardsigmoid(x) (Howard et al. 2019)") \
  X(selu, Selu, floating, -3.0, 3.0, "1.0507 * (x, or 1.67326 * (exp(x) - 1) up to 0) (Klambauer et al. 2017)") \
  X(mish, Mish, floating, -3.0, 3.0, "x * tanh(softplus(x)) (Misra 2019); -inf gives -0") \
  X(softsign, Softsign, floating, -3.0, 3.0, "x / (1 + |x|)") \
  X(tanhshrink, Tanhshrink, floating, -3.0, 3.0, "x - tanh(x)") \
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
  X(fmax, Fmax, any, -3.0, 3.0, -3.0, 3.0, "the larger; a number wins over NaN; equal operands share the gradient") \
  X(fmin, Fmin, any, -3.0, 3.0, -3.0, 3.0, "the smaller; a number wins over NaN; equal operands share the gradient") \
  X(hypot, Hypot, floating, -3.0, 3.0, 0.5, 3.0, "sqrt(a * a + b * b) without overflow; the gradient at the origin is 0") \
  X(copysign, Copysign, floating, 0.5, 3.0, -3.0, 3.0, "|a| with the sign of b, that of -0 too") \
  X(logaddexp, Logaddexp, floating, -3.0, 3.0, -3.0, 3.0, "log(exp(a) + exp(b)) without overflow") \
  X(logaddexp2, Logaddexp2, floating, -3.0, 3.0, -3.0, 3.0, "log2(2 ** a + 2 ** b) without overflow") \
  X(xlogy, Xlogy, floating, -3.0, 3.0, 0.5, 3.0, "a * log(b); 0 where a is 0, unless b is NaN") \
  X(xlog1py, Xlog1py, floating, -3.0, 3.0, -0.5, 3.0, "a * log(1 + b); 0 where a is 0, unless b is NaN") \
  X(heaviside, Heaviside, any, -3.0, 3.0, -3.0, 3.0, "0 below 0, 1 above 0, b where a is 0") \
  X(swiglu, Swiglu, floating, -3.0, 3.0, -3.0, 3.0, "silu(a) * b (Shazeer 2020)") \
  X(leaky_relu, LeakyRelu, floating, -3.0, 3.0, 0.1, 0.9, "x where it is above 0, else x * negative_slope (Maas et al. 2013)") \
  X(elu, Elu, floating, -3.0, 3.0, 0.5, 2.0, "x where it is above 0, else alpha * (exp(x) - 1) (Clevert et al. 2015)") \
  X(celu, Celu, floating, -3.0, 3.0, 0.5, 2.0, "x where it is above 0, else alpha * (exp(x / alpha) - 1) (Barron 2017)") \
  X(softshrink, Softshrink, floating, -3.0, 3.0, 0.3, 0.9, "x brought nearer to 0 by lambd; 0 in [-lambd, lambd]") \
  X(hardshrink, Hardshrink, floating, -3.0, 3.0, 0.3, 0.9, "x, but 0 in [-lambd, lambd]") \
  X(atan2, Atan2, floating, -3.0, 3.0, 0.5, 3.0, "the angle of the point (b, a) in radians") \
  X(floor_divide, FloorDivide, division, -3.0, 3.0, 0.5, 3.0, "a / b rounded down, exactly; its gradients are 0") \
  X(trunc_divide, TruncDivide, division, -3.0, 3.0, 0.5, 3.0, "a / b without its fraction; its gradients are 0") \
  X(remainder, Remainder, division, -3.0, 3.0, 0.5, 3.0, "a - b * floor_divide(a, b), without rounding; it has the sign of b") \
  X(fmod, Fmod, division, -3.0, 3.0, 0.5, 3.0, "a - b * trunc_divide(a, b), without rounding; it has the sign of a")

// Two operands that are integers or bool, without a gradient: name, functor, kind, document.
#define WEFT_INTEGER_OPS(X) \
  X(bitwise_and, BitwiseAnd, bits, "the bits that are set in both") \
  X(bitwise_or, BitwiseOr, bits, "the bits that are set in either") \
  X(bitwise_xor, BitwiseXor, bits, "the bits that are set in one of them") \
  X(bitwise_left_shift, BitwiseLeftShift, integers, "a * 2 ** b without the bits that leave the width; 0 where b is negative or not below it") \
  X(bitwise_right_shift, BitwiseRightShift, integers, "a / 2 ** b rounded down; 0 or -1 where b is negative or not below the width") \
  X(gcd, Gcd, integers, "the greatest common divisor, not negative; gcd(0, 0) is 0") \
  X(lcm, Lcm, integers, "the least common multiple, not negative; 0 where either is 0")

// Three operands: name, functor, kind, document.
#define WEFT_TERNARY_OPS(X) \
  X(clamp, Clamp, any, "min(max(a, b), c): a held between b and c; NaN in a stays NaN") \
  X(addcmul, Addcmul, any, "a + b * c") \
  X(addcdiv, Addcdiv, floating, "a + b / c") \
  X(threshold, Threshold, any, "x where it is above threshold, else value") \
  X(hardtanh, Hardtanh, floating, "min(max(x, min_val), max_val); the gradient at both ends is 0") \
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
