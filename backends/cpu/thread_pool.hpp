// The CPU's thread pool: the caller works too, idle workers spin for a moment and then sleep on a futex.
//
// A thread starts with the same adjacent chunks in every call, so its cache has the data that it wrote before. Then it
// takes chunks that others left, so a delayed thread delays nobody.
#pragma once

#include <cstdint>
#include <type_traits>

namespace weft::cpu {

using RangeBody = void (*)(void* context, int64_t begin, int64_t end);
void run_chunks(int64_t n, int64_t chunk, RangeBody body, void* context);

/// Calls body(begin, end) over chunks that cover [0, n), each of `chunk` elements but for the last; returns when all
/// are done. Chunks depend on n and chunk alone, never on the number of threads, so neither do results. A body that
/// throws ends the loop; the first exception is rethrown here. Nested calls run inline.
template <class F>
void parallel_for(int64_t n, int64_t chunk, F&& body) {
  if (n <= chunk) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  using Body = std::remove_reference_t<F>;
  run_chunks(
      n, chunk, [](void* context, int64_t begin, int64_t end) { (*static_cast<Body*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace weft::cpu
