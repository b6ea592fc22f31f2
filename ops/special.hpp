// Special functions and the parts of a floating-point number that are no rows of <weft/ops/pointwise.hpp>.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// The n-th derivative of digamma (DLMF 5.15). Computed in f64 on the CPU and rounded once; integers give the default
/// dtype. Its gradient is polygamma(n + 1, x). At 0, -1, -2 … it is infinite, where n is 0 NaN or -inf as digamma is.
/// ValueError unless n is in [0, 170].
[[nodiscard]] WEFT_API Tensor polygamma(int64_t n, const Operand& x);
/// The logarithm of the multivariate gamma function of dimension p: p (p - 1) / 4 log(pi) + the sum of
/// lgamma(x - j / 2) over j from 0 to p - 1. Integers give the default dtype. ValueError unless p is in [1, 4096]; NaN
/// where x is not above (p - 1) / 2.
[[nodiscard]] WEFT_API Tensor mvlgamma(const Operand& x, int64_t p);

/// The next number after a in the direction of b, in their common dtype; b where they are equal, NaN where either is.
/// It has no gradient. DTypeError for integers and bool, and for formats of 8 bits.
[[nodiscard]] WEFT_API Tensor nextafter(const Operand& a, const Operand& b);

struct MantissaAndExponent {
  Tensor mantissa, exponent;
};
/// x = mantissa * 2 ** exponent, with a mantissa from 1/2 to below 1 in size, of x's dtype, and an i32 exponent. Of 0,
/// NaN and infinities the mantissa is x itself and the exponent 0. Integers give the default dtype. The mantissa has a
/// gradient.
WEFT_API MantissaAndExponent frexp(const Operand& x);

/// x itself. DTypeError for bool.
[[nodiscard]] WEFT_API Tensor positive(const Tensor& x, Location where = {});
/// Every bit of an integer turned over, which is -1 - x of signed ones; not, for bool. DTypeError for floats.
[[nodiscard]] WEFT_API Tensor bitwise_not(const Operand& x);
WEFT_API const Tensor& bitwise_not_(const Tensor& x, Location where = {});
/// bitwise_and, bitwise_or, bitwise_xor and bitwise_not, with their errors.
WEFT_API Tensor operator&(const Operand& a, const Operand& b);
WEFT_API Tensor operator|(const Operand& a, const Operand& b);
WEFT_API Tensor operator^(const Operand& a, const Operand& b);
WEFT_API Tensor operator~(const Operand& x);

}  // namespace weft
