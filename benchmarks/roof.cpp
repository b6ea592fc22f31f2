// What this machine can do, in the same run as the cases it is compared with: peak of fused multiply-adds, bandwidth.
// Every thread of the pool takes part.
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <weft/backends/cpu/thread_pool.hpp>

#include "case.hpp"

namespace weft::bench {

namespace {

/// One part of [0, n) for each thread, a multiple of 16 long but for the last.
template <class F>
void on_all_threads(int64_t n, F&& body) {
  const int64_t part = (n / num_threads() + 15) / 16 * 16;
  cpu::parallel_for(n, part, body);
}

/// Operations of one call of a peak loop: enough that the call itself does not count.
struct Peak {
  void (*run)();
  double flops;
};
constexpr int64_t rounds = 20000;
constexpr int registers = 16;

#if defined(__x86_64__)

// Sixteen independent chains hide the latency on every processor with these instructions.
#define WEFT_PEAK(name, features, Register, set, step, operand)                   \
  __attribute__((target(features))) void name() {                                 \
    Register r[registers];                                                        \
    for (int i = 0; i < registers; ++i) r[i] = set(1.0f + static_cast<float>(i)); \
    const Register a = set(0.9999f), b = set(1e-4f);                              \
    const auto x = operand;                                                       \
    for (int64_t k = 0; k < rounds; ++k) {                                        \
      _Pragma("GCC unroll 16") for (int i = 0; i < registers; ++i) r[i] = step;   \
    }                                                                             \
    for (int i = 0; i < registers; ++i) benchmark::DoNotOptimize(r[i]);           \
    benchmark::DoNotOptimize(a), benchmark::DoNotOptimize(b);                     \
  }
WEFT_PEAK(fma_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps(r[i], x, b), a)
WEFT_PEAK(fma_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps(r[i], x, b), a)
WEFT_PEAK(dot_bf16, "avx512f,avx512bf16", __m512, _mm512_set1_ps, _mm512_dpbf16_ps(r[i], x, x),
          _mm512_cvtne2ps_pbh(a, a))
#undef WEFT_PEAK

// Past the caches; `out` is aligned as every fresh tensor is.
__attribute__((target("avx2"))) void stream_copy(float* out, const float* in, int64_t n) {
  for (int64_t i = 0; i + 8 <= n; i += 8) _mm256_stream_ps(out + i, _mm256_loadu_ps(in + i));
  _mm_sfence();
}
__attribute__((target("avx2"))) void read_all(const float* in, int64_t n) {
  __m256 sums[8] = {};
  for (int64_t i = 0; i + 64 <= n; i += 64) {
    _Pragma("GCC unroll 8") for (int k = 0; k < 8; ++k) sums[k] =
        _mm256_add_ps(sums[k], _mm256_loadu_ps(in + i + 8 * k));
  }
  benchmark::DoNotOptimize(sums);
}

Peak peak_f32() {
  if (__builtin_cpu_supports("avx512f")) return {fma_avx512, 32.0 * registers * rounds};
  if (__builtin_cpu_supports("fma")) return {fma_avx2, 16.0 * registers * rounds};
  return {nullptr, 0};
}
Peak peak_bf16() {
  if (__builtin_cpu_supports("avx512bf16")) return {dot_bf16, 64.0 * registers * rounds};
  return {nullptr, 0};
}

#else

Peak peak_f32() { return {nullptr, 0}; }
Peak peak_bf16() { return {nullptr, 0}; }

#endif

}  // namespace

/// Registered only where the processor has the instructions.
void add_roof_cases() {
  const auto add_peak = [](const char* name, Peak peak) {
    if (peak.run == nullptr) return;
    const auto run = [peak] { cpu::parallel_for(num_threads(), 1, [&](int64_t, int64_t) { peak.run(); }); };
    add_case(name, run, Mode::no_grad, peak.flops * num_threads(), Rate::flops);
  };
  add_peak("roof.fma_f32", peak_f32());
  add_peak("roof.dot_bf16", peak_bf16());
  for (const auto& [size, n] : {std::pair{"1e5", int64_t{100000}}, std::pair{"1e7", int64_t{10000000}}}) {
    const double w = static_cast<double>(n);
    add_case(
        std::string("roof.memcpy.") + size,
        [a = randn({n}), o = empty({n})] {
          on_all_threads(a.numel(), [to = o.data<float>(), from = a.data<float>()](int64_t begin, int64_t end) {
            std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin) * sizeof(float));
          });
          benchmark::ClobberMemory();
        },
        Mode::no_grad, 8 * w, Rate::bytes);
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2")) continue;
    add_case(
        std::string("roof.stream.") + size,
        [a = randn({n}), o = empty({n})] {
          on_all_threads(a.numel(), [to = o.data<float>(), from = a.data<float>()](int64_t begin, int64_t end) {
            stream_copy(to + begin, from + begin, end - begin);
          });
        },
        Mode::no_grad, 8 * w, Rate::bytes);
    add_case(
        std::string("roof.read.") + size,
        [a = randn({n})] {
          on_all_threads(a.numel(),
                         [from = a.data<float>()](int64_t begin, int64_t end) { read_all(from + begin, end - begin); });
        },
        Mode::no_grad, 4 * w, Rate::bytes);
#endif
  }
}

}  // namespace weft::bench
