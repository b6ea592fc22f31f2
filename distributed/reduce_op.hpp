// How elements of several ranks become one.
#pragma once

#include <cstdint>

#include "../tensor/config.hpp"

namespace weft::distributed {

/// Ranks are combined in ascending order, in the dtype's compute type, and rounded once: f16, bf16 and the 8-bit floats
/// in f32, other floats in their own type; integers wrap. Every run gives the same bits. `sum` and `prod` take every
/// dtype but bool, `avg` the floating ones, `max` and `min` all (NaN wins). `any` and `all` give bool: whether elements
/// are not 0.
enum class ReduceOp : uint8_t { sum, avg, max, min, prod, any, all };

/// "sum", "avg", …
WEFT_API const char* name(ReduceOp op);

}  // namespace weft::distributed
