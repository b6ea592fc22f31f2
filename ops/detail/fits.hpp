// Whether a number fits a dtype: 300 does not fit i8, and NaN no integer. Not public.
#pragma once

#include "common.hpp"

namespace weft {

/// Whether `value` is in the range of `dtype`. Fractions are truncated first, floats and bool take every number, and a
/// negative integer may stand for the unsigned one with the same bits, as in PyTorch.
bool fits(Scalar value, DType dtype);
/// ValueError where it does not.
void check_fits(Scalar value, DType dtype);
/// The same for an operand that is a C++ number; tensors are not checked, since to() converts them.
void check_number_fits(const Operand& value, DType dtype);

}  // namespace weft
