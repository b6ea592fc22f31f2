// Reduction of what several ranks have, in the order of ranks.
#pragma once

#include <span>

#include "../../tensor/device.hpp"
#include "../../tensor/dtype.hpp"
#include "../reduce_op.hpp"

namespace weft::distributed::detail {

/// out[i] = the inputs' element i, from the first input to the last, in the compute type and rounded once. `out` may be
/// one of the inputs; all are memory of the device. `any` and `all` need bool.
void reduce_in_order(ReduceOp op, DType dtype, void* out, std::span<const void* const> inputs, int64_t count,
                     Device device = {});

/// DTypeError unless the op takes this dtype; names the op that is running.
void check_reduction(ReduceOp op, DType dtype);

}  // namespace weft::distributed::detail
