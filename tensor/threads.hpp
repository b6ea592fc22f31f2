// Number of threads of the CPU kernels. Results never depend on it.
#pragma once

#include "config.hpp"

namespace weft {

/// The number of threads that one kernel may use, including the caller's. Default: WEFT_NUM_THREADS, else the cores
/// available to this process.
WEFT_API int num_threads();
/// Takes effect with the next kernel. May exceed the number of cores; clamped to at least 1 and to a fixed maximum.
WEFT_API void set_num_threads(int count);

/// Runs the calling thread's kernels on that thread alone until destruction, so that other work can use the other
/// cores. num_threads() returns 1 meanwhile.
class WEFT_API OneThreadGuard {
 public:
  OneThreadGuard();
  ~OneThreadGuard();
  OneThreadGuard(const OneThreadGuard&) = delete;

 private:
  bool outer_;
};

}  // namespace weft
