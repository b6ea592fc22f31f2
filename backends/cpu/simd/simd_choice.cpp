// Which SIMD targets this processor has, in place of Highway's shared library: that one measures the clock's resolution
// when it is loaded, which costs every process 3.5 ms. Weak and hidden: a Highway that the program links itself stays
// as it is.
#if defined(__x86_64__)

#undef HWY_SHARED_DEFINE
#include <atomic>

#include "simd_targets.hpp"
#include <hwy/targets.h>

namespace hwy {

namespace {

std::atomic<int64_t> disabled{0};

int64_t detected_targets() {
  int64_t targets = HWY_ENABLED_BASELINE | HWY_SCALAR | HWY_EMU128;
  __builtin_cpu_init();
  // Processors with these have F16C and LZCNT too.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
  if (avx2) targets |= HWY_AVX2;
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
    targets |= HWY_AVX3;
  }
  return targets;
}

}  // namespace

[[gnu::weak]] int64_t SupportedTargets() {
  const int64_t targets = detected_targets() & ~disabled.load(std::memory_order_relaxed);
  return targets == 0 ? int64_t{HWY_STATIC_TARGET} : targets;
}
[[gnu::weak]] void DisableTargets(int64_t targets) { disabled.store(targets, std::memory_order_relaxed); }
[[gnu::weak]] ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy

#endif
