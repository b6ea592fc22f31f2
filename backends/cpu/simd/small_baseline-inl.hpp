// Highway, with the kernels of processors that have no AVX2 compiled for size: few machines run them, and loops that
// the compiler unrolls and vectorises for these would be a third of all kernels. Products of floats, convolutions and
// lane-wise sums (lanes-inl.hpp) do not use it, because they would be ten times slower. Included for each target, hence
// without a guard.
#include <hwy/highway.h>

#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && defined(HWY_TARGET) && \
    (HWY_TARGET & (HWY_SCALAR | HWY_EMU128))
#undef HWY_BEFORE_NAMESPACE
#undef HWY_AFTER_NAMESPACE
#define HWY_BEFORE_NAMESPACE() HWY_PRAGMA(GCC push_options) HWY_PRAGMA(GCC optimize("Os")) static_assert(true)
#define HWY_AFTER_NAMESPACE() HWY_PRAGMA(GCC pop_options) static_assert(true)
#endif
