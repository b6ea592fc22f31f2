// Loops that reach a processor's limits; null where it lacks the instructions.
#pragma once

#include <cstdint>

#include "../backends/cpu/thread_pool.hpp"
#include "../tensor/threads.hpp"

namespace weft::bench {

/// A loop of one kind of instruction for one thread, and the operations of one run.
struct PeakLoop {
  void (*run)() = nullptr;
  double operations = 0;
};
WEFT_API PeakLoop peak_f32();
WEFT_API PeakLoop peak_bf16();

/// Copies, with stores that bypass the caches; `out` is aligned to 64 bytes and n a multiple of 8.
using CopyLoop = void (*)(float* out, const float* in, int64_t n);
WEFT_API CopyLoop stream_copy();
using ReadLoop = void (*)(const float* in, int64_t n);
WEFT_API ReadLoop read_all();

/// Calls body(begin, end) with one part of [0, n) for each thread; the length of all but the last is a multiple of 16.
template <class F>
void on_all_threads(int64_t n, F&& body) {
  const int64_t part = (n / num_threads() + 15) / 16 * 16;
  cpu::parallel_for(n, part, body);
}

}  // namespace weft::bench
