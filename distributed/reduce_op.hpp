// Reductions of collectives.
#pragma once

#include "../ops/partition.hpp"

namespace weft::distributed {

using weft::ReduceOp;

}  // namespace weft::distributed
