// Layouts to try kernels with, comparison with figures in double, and the check that neither the number of threads nor
// the SIMD target changes a bit.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <hwy/targets.h>

#include <weft/backends/cpu/kernels.hpp>
#include <weft/tensor/threads.hpp>

#include "host_array.hpp"

namespace weft::test {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

inline const std::vector<DType> float_types = {f16, bf16, f32, f64};
inline const std::vector<DType> real_types = {boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64};

/// Relative rounding error of one operation.
inline double epsilon(DType t) {
  switch (t) {
    case f16:
      return 0x1p-11;
    case bf16:
      return 0x1p-8;
    case f32:
      return 0x1p-24;
    case f64:
      return 0x1p-53;
    default:
      return 0;
  }
}

/// One shape in several layouts: dense, transposed, with gaps, backwards, repeated along `repeated`.
inline std::vector<ArrayShape> layouts_of(const std::vector<int64_t>& sizes) {
  std::vector<ArrayShape> all = {{.sizes = sizes}, {.sizes = sizes, .gap = 2}};
  if (sizes.empty()) return all;
  std::vector<int> reversed;
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) reversed.push_back(d);
  all.push_back({.sizes = sizes, .order = reversed});
  all.push_back({.sizes = sizes, .backwards = {static_cast<int>(sizes.size()) - 1}});
  all.push_back({.sizes = sizes, .backwards = {0}});
  return all;
}

inline HostArray filled(DType dtype, const ArrayShape& shape, const std::vector<double>& values) {
  HostArray a(dtype, shape);
  for (int64_t i = 0; i < a.numel(); ++i) a.set(i, values[static_cast<size_t>(i)]);
  return a;
}

/// The elements' bytes, row-major.
inline std::string bits_of(const HostArray& a) {
  std::string bits;
  for (int64_t i = 0; i < a.numel(); ++i) bits.append(a.at(i), static_cast<size_t>(itemsize(a.view.layout.dtype)));
  return bits;
}

inline void expect_close(double actual, double expected, double allowed, const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << what << ": " << actual << " instead of NaN";
  } else if (std::isinf(expected)) {
    EXPECT_EQ(actual, expected) << what;
  } else {
    EXPECT_NEAR(actual, expected, allowed) << what;
  }
}

/// Runs `compute` with 1 and 2 threads on every SIMD target of this machine and compares the results' bytes.
inline void expect_same_bits(const std::function<std::string()>& compute) {
  const int threads = num_threads();
  set_num_threads(1);
  const std::string expected = compute();
  set_num_threads(2);
  EXPECT_TRUE(compute() == expected) << "two threads";
#if !defined(WEFT_SHARED) && !defined(HWY_COMPILE_ONLY_STATIC)
  for (const int64_t target : {int64_t{0}, int64_t{HWY_AVX2}}) {
    if ((hwy::SupportedTargets() & target) != target) continue;
    hwy::GetChosenTarget().Update(target);
    EXPECT_TRUE(compute() == expected) << (target == 0 ? "without SIMD" : "AVX2");
    hwy::GetChosenTarget().DeInit();
  }
#endif
  set_num_threads(threads);
}

}  // namespace weft::test
