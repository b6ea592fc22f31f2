// Loops that reach what a processor can do; null where it lacks the instructions.
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

/// Copies past the caches; `out` is aligned to 64 bytes and n a multiple of 8.
using CopyLoop = void (*)(float* out, const float* in, int64_t n);
WEFT_API CopyLoop stream_copy();
using ReadLoop = void (*)(const float* in, int64_t n);
WEFT_API ReadLoop read_all();

/// body(begin, end) for one part of [0, n) for each thread, a multiple of 16 long but for the last.
template <class F>
void on_all_threads(int64_t n, F&& body) {
  const int64_t part = (n / num_threads() + 15) / 16 * 16;
  cpu::parallel_for(n, part, body);
}

}  // namespace weft::bench
