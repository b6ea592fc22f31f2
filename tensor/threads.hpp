// How many threads the CPU's kernels may use. Results never depend on it.
#pragma once

#include "config.hpp"

namespace weft {

/// The threads that one kernel may use, the caller's included: WEFT_NUM_THREADS, else the cores that this process may
/// run on.
WEFT_API int num_threads();
/// Takes effect with the next kernel. May exceed the number of cores; clamped to 1 from below and to a fixed maximum.
WEFT_API void set_num_threads(int count);

/// While it lives, kernels that the calling thread runs use it alone, whatever the number: for work beside the work
/// that wants the other cores. num_threads() is 1 there.
class WEFT_API OneThreadGuard {
 public:
  OneThreadGuard();
  ~OneThreadGuard();
  OneThreadGuard(const OneThreadGuard&) = delete;

 private:
  bool outer_;
};

}  // namespace weft
