// Exact comparisons of operands with two dtypes. Not public.
//
// A number outside the tensor's dtype is replaced by an equivalent comparison, such as u8 < 300 by u8 <= 255 and i64
// < 2.5 by i64 < 3. Tensors of two dtypes are compared in a dtype that holds both exactly, such as f64. 64-bit
// integers are compared with floats as integers.
#pragma once

#include <optional>

#include "../../backends/functors/lists.hpp"
#include "common.hpp"

namespace weft {

inline bool is_whole(DType t) { return is_integer(t) || t == DType::boolean; }

struct Comparison {
  CompareOp op;
  Scalar number;
};
/// A comparison with the same answers for all elements of `dtype`, with a number that the dtype holds. lt and le stay
/// lt or le, gt and ge stay gt or ge. Fractions are rounded to a floating-point dtype; integers and overflowing numbers
/// are not.
Comparison exact_in(DType dtype, CompareOp op, Scalar number);

/// The dtype in which elements of both dtypes are exact; none for 64-bit integers with floats or with the other sign.
std::optional<DType> exact_type(DType a, DType b);

}  // namespace weft
