// Threads of ops.
#pragma once

#include <cstdint>

namespace at {

int get_num_threads();
void set_num_threads(int count);
int get_num_interop_threads();
void set_num_interop_threads(int count);
inline void init_num_threads() {}
inline bool in_parallel_region() { return false; }
inline int get_thread_num() { return 0; }

/// Calls f(begin, end) on ranges of at least `grain_size`.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t /*grain_size*/, const F& f) {
  if (begin < end) f(begin, end);
}

}  // namespace at
