// Checks that ops with masks share. Not public.
#pragma once

#include <weft/ops/detail/common.hpp>

namespace weft {

/// DTypeError unless bool.
void check_mask(const char* op, const Tensor& mask, Location where);
/// ShapeError where two shapes do not broadcast.
Dims joined_shape(const char* op, const Tensor& x, const Tensor& y, Location where);
/// ShapeError unless `t`, called `what`, broadcasts to `shape`.
void check_reaches(const char* op, const char* what, const Tensor& t, const Dims& shape, Location where);

/// How many elements are not 0: the host waits. NotImplementedError on the meta device, which has no elements.
int64_t count_true(const char* op, const Tensor& x, Location where);

}  // namespace weft
