// Checks that ops with masks share. Not public.
#pragma once

#include "common.hpp"

namespace weft {

/// DTypeError unless bool.
void check_mask(const Tensor& mask);
/// ShapeError where two shapes do not broadcast.
Dims joined_shape(const Tensor& x, const Tensor& y);
/// ShapeError unless `t`, called `what`, broadcasts to `shape`.
void check_reaches(const char* what, const Tensor& t, const Dims& shape);

/// Whether the kernel of where() fills x as it is: with a number, by a mask of x's own sizes, nothing recorded.
bool fills_directly(const Tensor& x, const Tensor& mask, const Operand& value);
/// x with the number where the mask holds, into `out`, which may be x.
void fill_directly(const Tensor& out, const Tensor& x, const Tensor& mask, const Operand& value);

/// How many elements are not 0: the host waits. NotImplementedError on the meta device, which has no elements.
int64_t count_true(const Tensor& x);

}  // namespace weft
