// Loops that reach a processor's limits; null if it lacks the instructions.
#pragma once

#include <cstdint>

#include "../backends/cpu/thread_pool.hpp"
#include "../tensor/threads.hpp"

namespace weft::bench {

/// A loop of one instruction for one thread, and the number of operations of one run.
struct PeakLoop {
  void (*run)() = nullptr;
  double operations = 0;
};
WEFT_API PeakLoop peak_f32();
WEFT_API PeakLoop peak_bf16();

/// Copies with non-temporal stores; `out` is aligned to 64 bytes and n is a multiple of 8.
using CopyLoop = void (*)(float* out, const float* in, int64_t n);
WEFT_API CopyLoop stream_copy();
using ReadLoop = void (*)(const float* in, int64_t n);
WEFT_API ReadLoop read_all();

/// Calls body(begin, end) with one range of [0, n) per thread; the length of all but the last is a multiple of 16.
template <class F>
void on_all_threads(int64_t n, F&& body) {
  const int64_t part = (n / num_threads() + 15) / 16 * 16;
  cpu::parallel_for(n, part, body);
}

}  // namespace weft::bench
