// Whether a number fits a dtype: 300 does not fit i8, and NaN no integer. Not public.
#pragma once

#include "common.hpp"

namespace weft {

/// Whether `value` is in the range of `dtype`. Fractions are truncated first, floats and bool take every number, and a
/// negative integer may be the unsigned one with the same bits, as in PyTorch.
bool fits(Scalar value, DType dtype);
/// ValueError where it does not, DTypeError for a complex number and a real dtype other than bool.
void check_fits(Scalar value, DType dtype);
/// Writes a number that fits into all elements; not recorded.
void fill_elements(const Tensor& out, Scalar value);
/// check_fits for an operand that is a C++ number, check_operands_fit for a 0-d tensor; others are not checked, since
/// to() converts them.
void check_number_fits(const Operand& value, DType dtype);
/// Raises ValueError if an integer `dtype` does not hold a C++ number or 0-d tensor among the operands. With `modular`
/// a negative one may be the unsigned one with the same bits. Waits for the device of a wider 0-d tensor.
void check_operands_fit(DType dtype, std::span<const Operand* const> operands, bool modular);
/// Whether an integer or bool `dtype` has this integer.
bool holds(DType dtype, Scalar integer);
/// The largest or the smallest element of `dtype`.
Scalar end_of(DType dtype, bool upper);
/// An upper or lower bound for elements of `dtype`: an integer that limits nothing becomes the end of an integer dtype.
/// ValueError for one beyond the other end, which would be the result. Waits for the device of a wider 0-d tensor.
Tensor bound_in(DType dtype, const Tensor& bound, bool upper);

}  // namespace weft
