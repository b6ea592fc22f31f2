// Elementwise ops. The macros below declare a function for each row of backends/functors/rows.hpp, which documents its
// formula, integer behaviour and gradient at special points.
//
// Operands broadcast as in NumPy and are promoted as in PyTorch (a C++ number or 0-d tensor never widens a tensor
// within its category). Results are new contiguous tensors. ShapeError where shapes do not broadcast, DeviceError
// where devices differ (0-d CPU tensors go with any device), DTypeError for dtypes that the op does not take or that
// have no common one, ZeroDivisionError where floor_divide, trunc_divide, remainder or fmod divide integers by 0,
// ValueError for pow of integers with a negative exponent, and for a number or 0-d tensor that the integer dtype of the
// result does not hold. Comparisons are exact: neither numbers nor integers are rounded or wrapped around to the other
// operand's dtype; only fractions are rounded to that of a floating-point tensor.
//
// name_(x, …) computes in the promoted dtype, writes into x and returns it: DTypeError where the result is complex,
// floating-point or an integer and x is not complex, not floating-point or bool, ShapeError where
// the result's shape is not x's, and the errors of in-place writes in <weft/tensor/methods.hpp>. name_out(out, …)
// writes into out and is never recorded: ShapeError, DTypeError or DeviceError unless out has the result's shape, dtype
// and device, AutogradError where recording is on and a tensor requires a gradient, ValueError where elements of out
// overlap.
//
// Public ops are functions, not function objects: an object named `exp` collides with `::exp` under `using namespace
// weft`, and argument-dependent lookup does not find objects.
#pragma once

#include <optional>
#include <vector>

#include "../backends/functors/rows.hpp"
#include "../tensor/index.hpp"

namespace weft {

#define WEFT_DECLARE_UNARY(name, ...)                                   \
  [[nodiscard]] WEFT_API Tensor name(const Operand& x);                 \
  WEFT_API const Tensor& name##_(const Tensor& x, Location where = {}); \
  WEFT_API const Tensor& name##_out(const Tensor& out, const Operand& x);
WEFT_UNARY_OPS(WEFT_DECLARE_UNARY)
#undef WEFT_DECLARE_UNARY

#define WEFT_DECLARE_BINARY(name, ...)                                    \
  [[nodiscard]] WEFT_API Tensor name(const Operand& a, const Operand& b); \
  WEFT_API const Tensor& name##_(const Tensor& a, const Operand& b);      \
  WEFT_API const Tensor& name##_out(const Tensor& out, const Operand& a, const Operand& b);
WEFT_BINARY_OPS(WEFT_DECLARE_BINARY)
WEFT_INTEGER_OPS(WEFT_DECLARE_BINARY)
#undef WEFT_DECLARE_BINARY

/// How div rounds its quotient: not at all, down, or towards zero.
enum class Rounding : uint8_t { none, floor, trunc };
/// a / b with its quotient rounded: div, floor_divide or trunc_divide. Integers stay integers unless rounding is none.
/// Errors as these three.
[[nodiscard]] WEFT_API Tensor div(const Operand& a, const Operand& b, Rounding rounding);
WEFT_API const Tensor& div_(const Tensor& a, const Operand& b, Rounding rounding);
/// remainder(a, b): as in Python, with the sign of b. Raises ZeroDivisionError for integers modulo 0.
WEFT_API Tensor operator%(const Operand& a, const Operand& b);

#define WEFT_DECLARE_COMPARE(name, ...) WEFT_API Tensor name(const Operand& a, const Operand& b);
WEFT_COMPARE_OPS(WEFT_DECLARE_COMPARE)
#undef WEFT_DECLARE_COMPARE

#define WEFT_DECLARE_TERNARY(name, ...) WEFT_API Tensor name(const Operand& a, const Operand& b, const Operand& c);
WEFT_TERNARY_OPS(WEFT_DECLARE_TERNARY)
#undef WEFT_DECLARE_TERNARY

/// The nearest multiple of 10^-decimals, ties to even; `decimals` may be negative. Integers stay as they are;
/// DTypeError for them where `decimals` is negative.
[[nodiscard]] WEFT_API Tensor round(const Operand& x, int64_t decimals);
WEFT_API const Tensor& round_(const Tensor& x, int64_t decimals, Location where = {});
/// log(1 + exp(beta x)) / beta, or x where beta x is above `threshold`.
[[nodiscard]] WEFT_API Tensor softplus(const Operand& x, double beta, double threshold = 20);
/// a + alpha * b and a - alpha * b, 16-bit floats rounded once. DTypeError for a fraction among integers, and for a
/// complex alpha among real numbers.
[[nodiscard]] WEFT_API Tensor add(const Operand& a, const Operand& b, Scalar alpha);
[[nodiscard]] WEFT_API Tensor sub(const Operand& a, const Operand& b, Scalar alpha);
/// x += alpha * other and x -= alpha * other; return x.
WEFT_API const Tensor& add_(const Tensor& x, const Operand& other, Scalar alpha);
WEFT_API const Tensor& sub_(const Tensor& x, const Operand& other, Scalar alpha);
/// a + value * b * c. Errors as add.
[[nodiscard]] WEFT_API Tensor addcmul(const Operand& a, const Operand& b, const Operand& c, Scalar value);

/// The parameters of these have PyTorch's defaults: a slope of 0.01, alpha 1, a width of 0.5, bounds -1 and 1. Raises
/// ValueError for celu with alpha 0, softshrink with a negative width, and hardtanh with a lower bound above the upper
/// one. hardtanh and threshold keep integer dtypes and truncate their numbers.
[[nodiscard]] WEFT_API Tensor leaky_relu(const Operand& x);
[[nodiscard]] WEFT_API Tensor elu(const Operand& x);
[[nodiscard]] WEFT_API Tensor celu(const Operand& x);
[[nodiscard]] WEFT_API Tensor softshrink(const Operand& x);
[[nodiscard]] WEFT_API Tensor hardshrink(const Operand& x);
[[nodiscard]] WEFT_API Tensor hardtanh(const Operand& x);
/// a + value * b / c. Errors as add.
[[nodiscard]] WEFT_API Tensor addcdiv(const Operand& a, const Operand& b, const Operand& c, Scalar value);
/// x where it is above 0, else x * weight (He et al. 2015); weight has one element, or one for each channel, which
/// dimension 1 of x counts (ShapeError).
[[nodiscard]] WEFT_API Tensor prelu(const Operand& x, const Tensor& weight);
/// log(x / (1 - x)); with `eps`, of x limited to [eps, 1 - eps].
[[nodiscard]] WEFT_API Tensor logit(const Operand& x, std::optional<double> eps = {});
/// The first half of x along `dim` times the sigmoid of the second (Dauphin et al. 2017). ShapeError for an odd size.
[[nodiscard]] WEFT_API Tensor glu(const Operand& x, int64_t dim = -1);
/// x with NaN replaced by `nan`, infinity by `posinf` and -infinity by `neginf`, or by the ends of x's dtype; of
/// complex numbers each part by itself. Integers and bool stay as they are.
[[nodiscard]] WEFT_API Tensor nan_to_num(const Operand& x, double nan = 0, std::optional<double> posinf = {},
                                         std::optional<double> neginf = {});
/// pow computed in f64, or in c128 for complex operands. Accepts integers with negative exponents.
[[nodiscard]] WEFT_API Tensor float_power(const Operand& a, const Operand& b);
/// a * 2 ** b, in float32 where both are integers.
[[nodiscard]] WEFT_API Tensor ldexp(const Operand& a, const Operand& b);

enum class Approximate : uint8_t { none, tanh };
/// The Gaussian error linear unit (Hendrycks and Gimpel 2016): x * Phi(x), or its tanh approximation.
[[nodiscard]] WEFT_API Tensor gelu(const Operand& x, Approximate approximate = Approximate::none);

/// a where `condition` (bool, else DTypeError) holds, else b; all three broadcast. A NaN that is not chosen affects
/// neither result nor gradients. ValueError where an integer dtype does not hold a number.
[[nodiscard]] WEFT_API Tensor where(const Operand& condition, const Operand& a, const Operand& b);
/// The coordinates of the non-zero elements: i64 [count], one tensor for each dimension of `condition`.
[[nodiscard]] WEFT_API std::vector<Tensor> where(const Tensor& condition, Location where = {});
/// x with `value`, a number or 0-d tensor (else ShapeError) that is converted to x's dtype, where `mask` (bool, else
/// DTypeError) holds; x and mask broadcast. ValueError where an integer dtype does not hold a number.
[[nodiscard]] WEFT_API Tensor masked_fill(const Operand& x, const Operand& mask, const Operand& value);
/// In place; `mask` must broadcast to x. Raises ShapeError otherwise, and the errors of masked_fill.
WEFT_API const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, const Operand& value);

/// x limited to [low, high]; either may be left out. ValueError where both are, and for a bound beyond an integer dtype
/// that would be the result: clip(u8, 300, none). One that limits nothing, as in clip(u8, -5, 300), is allowed.
[[nodiscard]] WEFT_API Tensor clip(const Operand& x, std::optional<Scalar> low, std::optional<Scalar> high);

/// x in `dtype`, rounded once, to nearest even; NaN stays NaN, and numbers that overflow follow `overflow`. A new
/// tensor of x's shape, or x itself where nothing changes. The gradient passes unchanged, converted to x's dtype, even
/// where x saturates. The 8-bit formats are those of the OCP 8-bit floating point specification.
[[nodiscard]] WEFT_API Tensor cast(const Operand& x, DType dtype, Overflow overflow = Overflow::by_format);

/// True where x is 0; bool.
[[nodiscard]] WEFT_API Tensor logical_not(const Operand& x);
/// For any dtype, the 8-bit floats included; bool.
[[nodiscard]] WEFT_API Tensor isnan(const Operand& x);
[[nodiscard]] WEFT_API Tensor isinf(const Operand& x);
[[nodiscard]] WEFT_API Tensor isfinite(const Operand& x);
[[nodiscard]] WEFT_API Tensor isposinf(const Operand& x);
[[nodiscard]] WEFT_API Tensor isneginf(const Operand& x);
/// True where the imaginary part is 0, so everywhere in a real x; bool.
[[nodiscard]] WEFT_API Tensor isreal(const Operand& x);
/// True where x is negative, -0 and NaNs with a sign included; bool.
[[nodiscard]] WEFT_API Tensor signbit(const Operand& x);

/// Where |a - b| <= absolute + relative * |b|; bool. Infinities are near themselves alone, NaN is near NaN where
/// `equal_nan`. Integers are compared exactly before they are float64. ValueError for a negative tolerance.
[[nodiscard]] WEFT_API Tensor isclose(const Operand& a, const Operand& b, double relative = 1e-5,
                                      double absolute = 1e-8, bool equal_nan = false);
/// Whether isclose holds everywhere. Waits for the device. Errors as isclose.
WEFT_API bool allclose(const Tensor& a, const Tensor& b, double relative = 1e-5, double absolute = 1e-8,
                       bool equal_nan = false, Location where = {});
/// Whether both have the same shape and equal elements; dtypes may differ. Tensors of different shapes are not equal,
/// without an error. Waits for the device.
WEFT_API bool equal(const Tensor& a, const Tensor& b, Location where = {});

/// The common type of two operands by PyTorch's rules: tensors of rank 1 and above decide first, then 0-d ones, then
/// C++ numbers. DTypeError where there is none.
WEFT_API DType result_type(const Operand& a, const Operand& b);

}  // namespace weft
