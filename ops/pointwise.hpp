// Elementwise ops. Their formulas, gradients and documents stand in backends/functors/; each row there makes the
// function declared here.
//
// Operands broadcast as in NumPy and are promoted as in PyTorch (a C++ number or 0-d tensor never widens a tensor
// within its category). Results are new contiguous tensors. ShapeError where shapes do not broadcast, DeviceError
// where devices differ (0-d CPU tensors go with any device), ZeroDivisionError where floor_divide, trunc_divide,
// remainder or fmod of integers meet a 0, ValueError for pow of integers with a negative number as exponent.
#pragma once

#include <optional>
#include <vector>

#include "../backends/functors/rows.hpp"
#include "../tensor/index.hpp"

namespace weft {

// name(x), name_(x) in place, name_out(out, x) into an existing tensor.
#define WEFT_DECLARE_UNARY(name, ...)                                   \
  WEFT_API Tensor name(const Operand& x);                               \
  WEFT_API const Tensor& name##_(const Tensor& x, Location where = {}); \
  WEFT_API const Tensor& name##_out(const Tensor& out, const Operand& x);
WEFT_UNARY_OPS(WEFT_DECLARE_UNARY)
#undef WEFT_DECLARE_UNARY

#define WEFT_DECLARE_BINARY(name, ...)                               \
  WEFT_API Tensor name(const Operand& a, const Operand& b);          \
  WEFT_API const Tensor& name##_(const Tensor& a, const Operand& b); \
  WEFT_API const Tensor& name##_out(const Tensor& out, const Operand& a, const Operand& b);
WEFT_BINARY_OPS(WEFT_DECLARE_BINARY)
#undef WEFT_DECLARE_BINARY

/// How div rounds its quotient: not at all, down, or towards zero.
enum class Rounding : uint8_t { none, floor, trunc };
/// floor_divide or trunc_divide. Integers stay integers; ZeroDivisionError where they are divided by 0.
WEFT_API Tensor div(const Operand& a, const Operand& b, Rounding rounding);
WEFT_API const Tensor& div_(const Tensor& a, const Operand& b, Rounding rounding);
/// remainder(a, b), as % is in Python: it has the sign of b.
WEFT_API Tensor operator%(const Operand& a, const Operand& b);

#define WEFT_DECLARE_COMPARE(name, ...) WEFT_API Tensor name(const Operand& a, const Operand& b);
WEFT_COMPARE_OPS(WEFT_DECLARE_COMPARE)
#undef WEFT_DECLARE_COMPARE

#define WEFT_DECLARE_TERNARY(name, ...) WEFT_API Tensor name(const Operand& a, const Operand& b, const Operand& c);
WEFT_TERNARY_OPS(WEFT_DECLARE_TERNARY)
#undef WEFT_DECLARE_TERNARY

/// The nearest multiple of 10^-decimals, ties to even; `decimals` may be negative. Integers stay as they are, or are a
/// DTypeError where `decimals` is negative.
WEFT_API Tensor round(const Operand& x, int64_t decimals);
WEFT_API const Tensor& round_(const Tensor& x, int64_t decimals, Location where = {});
/// log(1 + exp(beta x)) / beta, and x itself where beta x is above `threshold`.
WEFT_API Tensor softplus(const Operand& x, double beta, double threshold = 20);
/// a + alpha * b and a - alpha * b, 16-bit floats rounded once. DTypeError for a fraction among integers.
WEFT_API Tensor add(const Operand& a, const Operand& b, Scalar alpha);
WEFT_API Tensor sub(const Operand& a, const Operand& b, Scalar alpha);
/// a + value * b * c. DTypeError for a fraction among integers.
WEFT_API Tensor addcmul(const Operand& a, const Operand& b, const Operand& c, Scalar value);

enum class Approximate : uint8_t { none, tanh };
/// The Gaussian error linear unit: x * Phi(x), or its tanh approximation.
WEFT_API Tensor gelu(const Operand& x, Approximate approximate = Approximate::none);

/// a where `condition` (bool) holds, else b; all three broadcast. A NaN in what was not chosen never leaks, nor does it
/// into gradients.
WEFT_API Tensor where(const Operand& condition, const Operand& a, const Operand& b);
/// The coordinates of the elements that are not 0: i64, one list for each dimension of `condition`.
WEFT_API std::vector<Tensor> where(const Tensor& condition, Location where = {});
/// x with `value` (0-d tensor or number) where `mask` (bool) holds; x and mask broadcast.
WEFT_API Tensor masked_fill(const Operand& x, const Operand& mask, const Operand& value);
/// In place; `mask` must broadcast to x.
WEFT_API const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, const Operand& value);

/// x limited to [low, high]; either may be left out, not both.
WEFT_API Tensor clip(const Operand& x, std::optional<Scalar> low, std::optional<Scalar> high);

/// x in `dtype`, rounded once, to nearest even; NaN stays NaN, and what overflows follows `overflow`. A new tensor of
/// x's shape, or x itself where nothing changes. Its gradient is the incoming one in x's dtype, of what saturates too.
/// The 8-bit formats are those of the OCP 8-bit floating point specification.
WEFT_API Tensor cast(const Operand& x, DType dtype, Overflow overflow = Overflow::by_format);

/// True where x is zero.
WEFT_API Tensor logical_not(const Operand& x);
// Of any dtype, the 8-bit floats too.
WEFT_API Tensor isnan(const Operand& x);
WEFT_API Tensor isinf(const Operand& x);
WEFT_API Tensor isfinite(const Operand& x);

/// The common type of two operands by PyTorch's rules: dimensioned tensors first, then 0-d ones, then C++ numbers.
WEFT_API DType result_type(const Operand& a, const Operand& b);

}  // namespace weft
