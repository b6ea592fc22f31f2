// Matrices in compressed rows: dot products where they have elements, and their product with a vector.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/index/csr.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>

#include "../../sparse.hpp"
#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void sample(const View& out, const View& row_starts, const View& columns, const View& a, const View& b) {
  const int64_t rows = a.layout.sizes[0], width = a.layout.sizes[1], n = out.layout.numel;
  const auto* const starts = static_cast<const int64_t*>(row_starts.data);
  const auto* const in = static_cast<const int64_t*>(columns.data);
  const int64_t work = (width + 16) * (n / std::max<int64_t>(rows, 1) + 1);
  parallel_for(rows, std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      const T* const x = static_cast<const T*>(a.data) + r * width;
      for (int64_t e = starts[r]; e < starts[r + 1]; ++e) {
        const T* const y = static_cast<const T*>(b.data) + in[e] * width;
        const double dot = sum_lines<T>(width, [&](int64_t i, int64_t left) HWY_ATTR {
          return Lanes<T>::load(x + i, left, T(0)) * Lanes<T>::load(y + i, left, T(0));
        });
        static_cast<T*>(out.data)[e] = static_cast<T>(dot);
      }
    }
  });
}

/// Four sums side by side, which hide the latency of an addition.
template <class T>
T few_times(const T* values, const int64_t* columns, const T* x, int64_t n) {
  T sums[4] = {};
  int64_t e = 0;
  for (; e + 4 <= n; e += 4) {
    for (int k = 0; k < 4; ++k) sums[k] += values[e + k] * x[columns[e + k]];
  }
  for (; e < n; ++e) sums[0] += values[e] * x[columns[e]];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
/// Sums of many products are carried in double.
template <class T>
T row_times(const T* values, const int64_t* columns, const T* x, int64_t n) {
  constexpr int64_t step = 64;
  double sum = 0;
  for (int64_t e = 0; e < n; e += step) {
    sum += static_cast<double>(few_times(values + e, columns + e, x, std::min(step, n - e)));
  }
  return static_cast<T>(sum);
}

template <class T>
void times_vector(const View& out, const View& row_starts, const View& columns, const View& values, const View& x) {
  const int64_t rows = out.layout.numel, n = values.layout.numel;
  const auto* const starts = static_cast<const int64_t*>(row_starts.data);
  const auto* const in = static_cast<const int64_t*>(columns.data);
  const auto *const v = static_cast<const T*>(values.data), *const from = static_cast<const T*>(x.data);
  parallel_for(rows, std::max<int64_t>(1, 32768 / (n / std::max<int64_t>(rows, 1) + 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   const int64_t first = starts[r];
                   static_cast<T*>(out.data)[r] = row_times(v + first, in + first, from, starts[r + 1] - first);
                 }
               });
}

/// Below 0 is large where it is unsigned.
uint64_t largest_unsigned(const uint64_t* numbers, int64_t n) {
  const hn::ScalableTag<uint64_t> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  auto first = hn::Zero(d), second = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    first = hn::Max(first, hn::LoadU(d, numbers + i));
    second = hn::Max(second, hn::LoadU(d, numbers + i + step));
  }
  uint64_t most = hn::GetLane(hn::MaxOfLanes(d, hn::Max(first, second)));
  for (; i < n; ++i) most = std::max(most, numbers[i]);
  return most;
}

void sample_any(const View& out, const View& row_starts, const View& columns, const View& a, const View& b) {
  if (out.layout.dtype == DType::f64) sample<double>(out, row_starts, columns, a, b);
  else sample<float>(out, row_starts, columns, a, b);
}
void times_vector_any(const View& out, const View& row_starts, const View& columns, const View& values, const View& x) {
  if (out.layout.dtype == DType::f64) times_vector<double>(out, row_starts, columns, values, x);
  else times_vector<float>(out, row_starts, columns, values, x);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(sample_any);
HWY_EXPORT(times_vector_any);
HWY_EXPORT(largest_unsigned);

void csr_times_vector(const View& out, const View& row_starts, const View& columns, const View& values, const View& x) {
  HWY_DYNAMIC_DISPATCH(times_vector_any)(out, row_starts, columns, values, x);
}

void csr_sampled_product(const View& out, const View& row_starts, const View& columns, const View& a, const View& b) {
  HWY_DYNAMIC_DISPATCH(sample_any)(out, row_starts, columns, a, b);
}

bool all_inside(const View& numbers, int64_t count) {
  constexpr int64_t piece = 32768;
  const auto* const given = static_cast<const uint64_t*>(numbers.data);
  std::atomic<bool> inside = true;
  parallel_for(numbers.layout.numel, piece, [&](int64_t begin, int64_t end) {
    const uint64_t most = HWY_DYNAMIC_DISPATCH(largest_unsigned)(given + begin, end - begin);
    if (begin < end && most >= static_cast<uint64_t>(count)) inside = false;
  });
  return inside;
}

}  // namespace weft::cpu
#endif
