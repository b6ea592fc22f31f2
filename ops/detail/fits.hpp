// Numbers that become elements: 300 is no int8, and NaN no integer. Not public.
#pragma once

#include "common.hpp"

namespace weft {

/// Whether `value` is written as an element of `dtype` without leaving its range. Fractions are cut, floats and bool
/// take every number, and a negative integer may stand for the unsigned one with its bits, as in PyTorch.
bool fits(Scalar value, DType dtype);
/// ValueError where it does not.
void check_fits(Scalar value, DType dtype);
/// The same for an operand that is a C++ number; tensors are converted as by to().
void check_number_fits(const Operand& value, DType dtype);

}  // namespace weft
