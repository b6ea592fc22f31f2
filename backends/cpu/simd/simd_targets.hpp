// The SIMD targets that kernels are compiled for: no extension, AVX2 and AVX-512 on x86-64. Included before Highway.
#pragma once

// Others cost compile time and gain little: a CPU without AVX2 runs the baseline, one with more runs AVX-512.
#if !defined(HWY_DISABLED_TARGETS)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
