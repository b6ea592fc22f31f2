// Loops in blocks of about equal size with constant sizes inside, because small blocks of registers wait for their
// sums.
#if defined(WEFT_CPU_BLOCKS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_CPU_BLOCKS_INL_HPP
#undef WEFT_CPU_BLOCKS_INL_HPP
#else
#define WEFT_CPU_BLOCKS_INL_HPP
#endif

#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

/// Calls f(begin, count) for blocks of about one size, at most `most`, that cover [0, n).
template <class F>
HWY_INLINE void for_blocks(int64_t n, int64_t most, F&& f) {
  for (int64_t begin = 0, blocks = (n + most - 1) / most; blocks > 0; --blocks) {
    const int64_t count = (n - begin + blocks - 1) / blocks;
    f(begin, count);
    begin += count;
  }
}

/// Calls f with n as a constant, 1 <= n <= most.
template <int most, class F>
HWY_INLINE void with_count(int64_t n, F&& f) {
  if constexpr (most > 1) {
    if (n < most) return with_count<most - 1>(n, f);
  }
  f(std::integral_constant<int, most>());
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
