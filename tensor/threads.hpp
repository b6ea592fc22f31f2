// How many threads the CPU's kernels may use. Results never depend on it.
#pragma once

#include "config.hpp"

namespace weft {

/// The threads that one kernel may use, the caller's included: WEFT_NUM_THREADS, else the cores this process may run
/// on.
WEFT_API int num_threads();
/// At least 1; larger than the number of cores is allowed. Takes effect with the next kernel.
WEFT_API void set_num_threads(int count);

}  // namespace weft
