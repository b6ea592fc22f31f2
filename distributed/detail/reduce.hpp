// Deterministic reduction of several ranks' data, in rank order.
#pragma once

#include <span>

#include "../../tensor/device.hpp"
#include "../../tensor/dtype.hpp"
#include "../reduce_op.hpp"

namespace weft::distributed::detail {

/// Reduces elementwise, from the first input to the last, in the compute type, and rounds once. `out` may be one of the
/// inputs; all point to memory of the device. `any` and `all` need bool.
void reduce_in_order(ReduceOp op, DType dtype, void* out, std::span<const void* const> inputs, int64_t count,
                     Device device = {});

/// Raises DTypeError, for the running op, unless the reduction supports this dtype.
void check_reduction(ReduceOp op, DType dtype);

}  // namespace weft::distributed::detail
