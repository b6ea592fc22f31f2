// Helpers of the ops with masks. Not public.
#pragma once

#include "common.hpp"

namespace weft {

/// DTypeError unless bool.
void check_mask(const Tensor& mask);
/// The shape that two broadcast to; ShapeError where they do not.
Dims broadcast_shape(const Tensor& x, const Tensor& y);
/// Raises ShapeError unless `t` broadcasts to `shape`; `what` is its name in the message.
void check_broadcasts_to(const char* what, const Tensor& t, const Dims& shape);

/// Whether where()'s kernel can fill x without preparation: a number, a mask of x's own sizes, nothing recorded.
bool fills_directly(const Tensor& x, const Tensor& mask, const Operand& value);
/// x with the number where the mask holds, into `out`, which may be x.
void fill_directly(const Tensor& out, const Tensor& x, const Tensor& mask, const Operand& value);

/// softmax over the last dimension of scores that are -infinity where nothing is seen; rows that see nothing are zero,
/// and pass no gradient. There must be elements.
Tensor softmax_of_seen(const Tensor& scores);

/// The number of non-zero elements, for which the host waits. NotImplementedError on the meta device.
int64_t count_true(const Tensor& x);

/// masked_fill by a value that may broadcast, as in x[mask] = row.
Tensor fill_by_mask(const Operand& x, const Operand& mask, const Operand& value);
const Tensor& fill_by_mask_(const Tensor& x, const Tensor& mask, const Operand& value);

}  // namespace weft
