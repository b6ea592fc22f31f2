#include "roof.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "../autograd/mode.hpp"
#include "../bench.hpp"
#include "../ops/create.hpp"
#include "../tensor/tensor.hpp"

namespace weft::bench {

namespace {

// Enough rounds to make the overhead of the call negligible.
[[maybe_unused]] constexpr int64_t rounds = 20000;
[[maybe_unused]] constexpr int registers = 16;

#if defined(__x86_64__)

// Sixteen independent chains hide the latency on all processors with these instructions.
#define WEFT_PEAK(name, features, Register, set, step, operand)                   \
  __attribute__((target(features))) void name() {                                 \
    Register r[registers];                                                        \
    for (int i = 0; i < registers; ++i) r[i] = set(1.0f + static_cast<float>(i)); \
    const Register a = set(0.9999f), b = set(1e-4f);                              \
    const auto x = operand;                                                       \
    for (int64_t k = 0; k < rounds; ++k) {                                        \
      _Pragma("GCC unroll 16") for (int i = 0; i < registers; ++i) r[i] = step;   \
    }                                                                             \
    for (int i = 0; i < registers; ++i) asm volatile("" : : "m"(r[i]));           \
    asm volatile("" : : "m"(a), "m"(b));                                          \
  }
WEFT_PEAK(fma_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps(r[i], x, b), a)
WEFT_PEAK(fma_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps(r[i], x, b), a)
WEFT_PEAK(dot_bf16, "avx512f,avx512bf16", __m512, _mm512_set1_ps, _mm512_dpbf16_ps(r[i], x, x),
          _mm512_cvtne2ps_pbh(a, a))
#undef WEFT_PEAK

__attribute__((target("avx2"))) void stream_copy_avx2(float* out, const float* in, int64_t n) {
  for (int64_t i = 0; i + 8 <= n; i += 8) _mm256_stream_ps(out + i, _mm256_loadu_ps(in + i));
  _mm_sfence();
}
__attribute__((target("avx2"))) void read_all_avx2(const float* in, int64_t n) {
  __m256 sums[8] = {};
  for (int64_t i = 0; i + 64 <= n; i += 64) {
    _Pragma("GCC unroll 8") for (int k = 0; k < 8; ++k) sums[k] =
        _mm256_add_ps(sums[k], _mm256_loadu_ps(in + i + 8 * k));
  }
  asm volatile("" : : "m"(sums));
}

#endif

/// The best of several runs, since a roof is an upper bound.
template <class F>
double best_rate(double work, F&& run) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (int i = 0; i < 9; ++i) {
    const auto start = Clock::now();
    run();
    best = std::max(best, work / std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

/// The highest bandwidth of copying or of reading n floats, `repeats` times in a row, in bytes per second.
double bandwidth(int64_t n, int repeats) {
  const NoGradGuard no_grad;
  const Tensor from = ones({n}, f32), to = empty({n}, f32);
  const auto copies = [&](auto copy) {
    return best_rate(8.0 * static_cast<double>(n) * repeats, [&] {
      for (int i = 0; i < repeats; ++i) {
        on_all_threads(n, [&](int64_t begin, int64_t end) {
          copy(to.data<float>() + begin, from.data<float>() + begin, end - begin);
        });
      }
    });
  };
  double best = copies([](float* out, const float* in, int64_t count) {
    std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
  });
  if (const CopyLoop copy = stream_copy()) best = std::max(best, copies(copy));
  if (const ReadLoop read = read_all()) {
    best = std::max(best, best_rate(4.0 * static_cast<double>(n) * repeats, [&] {
                      for (int i = 0; i < repeats; ++i) {
                        on_all_threads(
                            n, [&](int64_t begin, int64_t end) { read(from.data<float>() + begin, end - begin); });
                      }
                    }));
  }
  return best;
}

Roofs measure() {
  Roofs roofs;
  if (const PeakLoop peak = peak_f32(); peak.run != nullptr) {
    roofs.operations_per_second = best_rate(peak.operations * num_threads(), [&] {
      cpu::parallel_for(num_threads(), 1, [&](int64_t, int64_t) { peak.run(); });
    });
  }
  roofs.memory_bytes_per_second = bandwidth(10'000'000, 1);
  roofs.cache_bytes_per_second = bandwidth(int64_t{16'384} * num_threads(), 50);
  return roofs;
}

}  // namespace

#if defined(__x86_64__)
PeakLoop peak_f32() {
  if (__builtin_cpu_supports("avx512f")) return {fma_avx512, 32.0 * registers * rounds};
  if (__builtin_cpu_supports("fma")) return {fma_avx2, 16.0 * registers * rounds};
  return {};
}
PeakLoop peak_bf16() {
  if (__builtin_cpu_supports("avx512bf16")) return {dot_bf16, 64.0 * registers * rounds};
  return {};
}
CopyLoop stream_copy() { return __builtin_cpu_supports("avx2") ? stream_copy_avx2 : nullptr; }
ReadLoop read_all() { return __builtin_cpu_supports("avx2") ? read_all_avx2 : nullptr; }
#else
PeakLoop peak_f32() { return {}; }
PeakLoop peak_bf16() { return {}; }
CopyLoop stream_copy() { return nullptr; }
ReadLoop read_all() { return nullptr; }
#endif

Roofs roofs() {
  static std::mutex mutex;
  static std::map<int, Roofs> known;
  const std::lock_guard lock(mutex);
  const auto entry = known.find(num_threads());
  return entry != known.end() ? entry->second : known.emplace(num_threads(), measure()).first->second;
}

}  // namespace weft::bench
