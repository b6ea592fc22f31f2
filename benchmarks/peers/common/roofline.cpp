// Machine anchors: copy / triad bandwidth (in L1/L2/L3/DRAM sizes), fp32 FMA peak, page-fault cost, malloc cost.
#include <immintrin.h>
#include <sys/mman.h>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include "bench.h"

__attribute__((noinline)) static void triad(float* c, const float* a, const float* b, size_t n) {
  for (size_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
__attribute__((noinline)) static void triad_nt(float* c, const float* a, const float* b, size_t n) {
#ifdef __AVX512F__
  for (size_t i = 0; i < n; i += 16)
    _mm512_stream_ps(c + i, _mm512_add_ps(_mm512_load_ps(a + i), _mm512_load_ps(b + i)));
  _mm_sfence();
#else
  triad(c, a, b, n);
#endif
}
static float sum_all(const float* a, size_t n) {
#ifdef __AVX512F__
  __m512 s[8];
  for (auto& x : s) x = _mm512_setzero_ps();
  for (size_t i = 0; i + 128 <= n; i += 128)
    for (int j = 0; j < 8; ++j) s[j] = _mm512_add_ps(s[j], _mm512_load_ps(a + i + 16 * j));
  for (int j = 1; j < 8; ++j) s[0] = _mm512_add_ps(s[0], s[j]);
  return _mm512_reduce_add_ps(s[0]);
#else
  float r = 0;
  for (size_t i = 0; i < n; ++i) r += a[i];
  return r;
#endif
}
static volatile float sink;
static double fma_loop(long iters) {  // returns flops
#ifdef __AVX512F__
  __m512 r[24];
  for (int i = 0; i < 24; ++i) r[i] = _mm512_set1_ps(1.0f + i);
  __m512 a = _mm512_set1_ps(0.9999f), b = _mm512_set1_ps(1e-4f);
  for (long k = 0; k < iters; ++k) {
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) r[i] = _mm512_fmadd_ps(r[i], a, b);
  }
  for (int i = 1; i < 24; ++i) r[0] = _mm512_add_ps(r[0], r[i]);
  sink = _mm512_reduce_add_ps(r[0]);
  return 24.0 * 32 * iters;
#else
  return 0;
#endif
}
static double bf16_loop(long iters) {
#ifdef __AVX512BF16__
  __m512 r[24];
  for (int i = 0; i < 24; ++i) r[i] = _mm512_set1_ps(1.0f + i);
  __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1e-3f), _mm512_set1_ps(1e-3f));
  for (long k = 0; k < iters; ++k) {
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) r[i] = _mm512_dpbf16_ps(r[i], a, a);
  }
  for (int i = 1; i < 24; ++i) r[0] = _mm512_add_ps(r[0], r[i]);
  sink = _mm512_reduce_add_ps(r[0]);
  return 24.0 * 64 * iters;
#else
  return 0;
#endif
}
template <class F>
static void par(int t, F f) {
  if (t == 1) {
    f(0);
    return;
  }
  std::vector<std::thread> th;
  for (int i = 1; i < t; ++i) th.emplace_back(f, i);
  f(0);
  for (auto& x : th) x.join();
}

int main(int argc, char** argv) {
  bench::parse(argc, argv, "machine");
  const int T = bench::options().threads;
  struct {
    const char* n;
    size_t elems;
  } sizes[] = {{"1e3", 1024}, {"1e5", 100096}, {"1e7", 10000384}};
  for (auto s : sizes) {
    size_t n = s.elems, part = (n / T + 127) / 128 * 128;
    auto al = [&] {
      auto p = (float*)std::aligned_alloc(4096, (n * 4 + 8191) / 4096 * 4096);
      for (size_t i = 0; i < n; ++i) p[i] = 1;
      return p;
    };
    float *a = al(), *b = al(), *c = al();
    auto seg = [&](int i) { return std::min(n, part * (i + 1)) - part * i; };
    int tt = n < 1000000 ? 1 : T;  // thread creation would dominate the small sizes
    if (tt == 1) part = n;
    std::string suf = std::string(".") + s.n;
    bench::run(
        "roof.add" + suf, [&] { par(tt, [&](int i) { triad(c + part * i, a + part * i, b + part * i, seg(i)); }); },
        12.0 * n, "GB/s");
    bench::run(
        "roof.add_nt" + suf,
        [&] { par(tt, [&](int i) { triad_nt(c + part * i, a + part * i, b + part * i, seg(i)); }); }, 12.0 * n, "GB/s");
    bench::run(
        "roof.copy" + suf, [&] { par(tt, [&](int i) { std::memcpy(c + part * i, a + part * i, seg(i) * 4); }); },
        8.0 * n, "GB/s");
    bench::run(
        "roof.sum" + suf, [&] { par(tt, [&](int i) { sink = sum_all(a + part * i, seg(i)); }); }, 4.0 * n, "GB/s");
    std::free(a);
    std::free(b);
    std::free(c);
  }
  bench::run(
      "roof.fma_fp32", [&] { par(T, [&](int) { fma_loop(200000); }); }, 24.0 * 32 * 200000 * T, "GFLOP/s");
  bench::run(
      "roof.dot_bf16", [&] { par(T, [&](int) { bf16_loop(200000); }); }, 24.0 * 64 * 200000 * T, "GFLOP/s");
  bench::run(
      "roof.mmap_touch_40MB",
      [&] {
        size_t n = 40u << 20;
        char* p = (char*)mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t i = 0; i < n; i += 4096) p[i] = 1;
        munmap(p, n);
      },
      40.0 * 1048576, "GB/s");
  bench::run(
      "roof.malloc_free_64B",
      [&] {
        void* p = nullptr;
        for (int i = 0; i < 100; ++i) {
          p = std::malloc(64);
          asm volatile("" : "+r"(p)::"memory");
          std::free(p);
        }
      },
      0, nullptr, 100);
  bench::run(
      "roof.posix_memalign_64B",
      [&] {
        void* p = nullptr;
        for (int i = 0; i < 100; ++i) {
          if (posix_memalign(&p, 64, 64)) std::abort();
          asm volatile("" : "+r"(p)::"memory");
          std::free(p);
        }
      },
      0, nullptr, 100);
  bench::run(
      "roof.make_shared",
      [&] {
        for (int i = 0; i < 100; ++i) {
          auto p = std::make_shared<int>(i);
          asm volatile("" : : "r"(p.get()) : "memory");
        }
      },
      0, nullptr, 100);
}
