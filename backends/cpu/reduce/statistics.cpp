// Statistics of many numbers: chunks that fit the first cache, each by SIMD in its own type; where that overflows,
// underflows or meets a number that is not finite, once more element by element in double.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/reduce/statistics.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "../simd/lanes-inl.hpp"
#include "../lines.hpp"
#include "../../watch/host_values.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class A>
ElementStatistics carefully(const A* x, int64_t n) {
  ElementStatistics s;
  s.count = n;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(x[i]);
    if (!std::isfinite(v)) {
      ++s.non_finite;
      continue;
    }
    s.zeros += v == 0;
    if (i == s.non_finite) s.low = s.high = v;
    s.low = std::min(s.low, v), s.high = std::max(s.high, v);
    sum += v;
  }
  if (s.finite() == 0) return s;
  s.mean = sum / static_cast<double>(s.finite());
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(x[i]);
    if (std::isfinite(v)) s.squares += (v - s.mean) * (v - s.mean);
  }
  return s;
}

template <class A>
HWY_INLINE Lanes<A> lesser(Lanes<A> a, Lanes<A> b) {
  WEFT_EACH_PART(Lanes<A>::count) a.part[k] = hn::Min(a.part[k], b.part[k]);
  return a;
}
template <class A>
HWY_INLINE Lanes<A> greater(Lanes<A> a, Lanes<A> b) {
  WEFT_EACH_PART(Lanes<A>::count) a.part[k] = hn::Max(a.part[k], b.part[k]);
  return a;
}

// The sums of one pass; two alternate, so that sums do not depend on each other.
template <class A>
struct Gathered {
  using L = Lanes<A>;
  static constexpr A none = std::numeric_limits<A>::max();
  L sum, squares, zeros, low, high;

  HWY_INLINE Gathered() : sum(A(0)), squares(A(0)), zeros(A(0)), low(none), high(-none) {}
  HWY_INLINE void take(L v, L deviation) {
    const L one(A(1)), nothing(A(0));
    sum = sum + deviation;
    squares = squares + deviation * deviation;
    WEFT_EACH_PART(L::count) {
      zeros.part[k] = hn::Add(zeros.part[k], hn::IfThenElseZero(hn::Eq(v.part[k], nothing.part[k]), one.part[k]));
    }
  }
  HWY_INLINE void take_whole(L v, L middle) {
    take(v, v - middle);
    low = lesser(low, v), high = greater(high, v);
  }
  HWY_INLINE void add(const Gathered& more) {
    sum = sum + more.sum, squares = squares + more.squares, zeros = zeros + more.zeros;
    low = lesser(low, more.low), high = greater(high, more.high);
  }
};

// Deviations are taken from the mean of the first sixteen: near enough to the chunk's mean, and known at once.
template <class A>
ElementStatistics of_chunk(const A* x, int64_t n) {
  using L = Lanes<A>;
  const int64_t first = n < lane_count ? n : lane_count;
  A pivot = 0;
  for (int64_t i = 0; i < first; ++i) pivot += x[i];
  pivot /= static_cast<A>(first);
  const L middle(pivot);
  Gathered<A> even, odd;
  int64_t i = 0;
  for (; i + 2 * lane_count <= n; i += 2 * lane_count) {
    even.take_whole(L::load(x + i), middle);
    odd.take_whole(L::load(x + i + lane_count), middle);
  }
  if (i + lane_count <= n) {
    odd.take_whole(L::load(x + i), middle);
    i += lane_count;
  }
  even.add(odd);
  if (i < n) {
    // Missing elements count as 1 (no zero) and as the pivot (no deviation).
    const A none = Gathered<A>::none;
    even.take(L::load(x + i, n - i, A(1)), L::load(x + i, n - i, pivot) - middle);
    even.low = lesser(even.low, L::load(x + i, n - i, none));
    even.high = greater(even.high, L::load(x + i, n - i, -none));
  }
  ElementStatistics s;
  const double deviation = static_cast<double>(sum_of(even.sum)), squared = static_cast<double>(sum_of(even.squares));
  alignas(64) A lows[lane_count], highs[lane_count];
  even.low.store(lows), even.high.store(highs);
  s.low = static_cast<double>(*std::min_element(lows, lows + lane_count));
  s.high = static_cast<double>(*std::max_element(highs, highs + lane_count));
  const double range = s.high - s.low, smallest_range = sizeof(A) == 4 ? 1e-15 : 1e-150;
  if (!std::isfinite(deviation) || !std::isfinite(squared) || (range != 0 && range < smallest_range)) {
    return carefully(x, n);
  }
  s.count = n;
  s.zeros = static_cast<int64_t>(sum_of(even.zeros));
  const double count = static_cast<double>(n);
  s.mean = static_cast<double>(pivot) + deviation / count;
  s.squares = std::max(0.0, squared - deviation * (deviation / count));
  return s;
}

template <class A>
ElementStatistics of_range(const char* data, DType dtype, int64_t begin, int64_t end) {
  alignas(64) A scratch[chunk_size];
  const int64_t size = itemsize(dtype);
  ElementStatistics s;
  for (int64_t i = begin; i < end; i += chunk_size) {
    const int64_t n = std::min(chunk_size, end - i);
    s.add(of_chunk(read_line(scratch, data + i * size, size, n, dtype), n));
  }
  return s;
}

ElementStatistics of_any(const char* data, DType dtype, int64_t begin, int64_t end) {
  const bool wide = dtype == DType::f64 || (!is_floating(dtype) && itemsize(dtype) >= 4);
  return wide ? of_range<double>(data, dtype, begin, end) : of_range<float>(data, dtype, begin, end);
}

double difference(float* before, const float* now, int64_t n) {
  using L = Lanes<float>;
  return sum_lines<float>(n, [&](int64_t i, int64_t left) HWY_ATTR {
    const L v = L::load(now + i, left, 0.0f), d = v - L::load(before + i, left, 0.0f);
    v.store(before + i, left);
    return d * d;
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(of_any);
HWY_EXPORT(difference);

namespace {
constexpr int64_t piece = 65536;
}

void ElementStatistics::add(const ElementStatistics& more) {
  if (more.finite() > 0) {
    const bool empty = finite() == 0;
    const double mine = static_cast<double>(finite()), theirs = static_cast<double>(more.finite());
    const double delta = more.mean - mean;
    low = empty ? more.low : std::min(low, more.low);
    high = empty ? more.high : std::max(high, more.high);
    squares += more.squares + (empty ? 0 : delta * delta * (mine * (theirs / (mine + theirs))));
    mean += delta * (theirs / (mine + theirs));
  }
  count += more.count, zeros += more.zeros, non_finite += more.non_finite;
}

ElementStatistics element_statistics(const View& x) {
  const int64_t n = x.layout.numel;
  const char* data = static_cast<const char*>(x.data);
  if (n <= piece) return HWY_DYNAMIC_DISPATCH(of_any)(data, x.layout.dtype, 0, n);
  std::vector<ElementStatistics> parts(static_cast<size_t>((n + piece - 1) / piece));
  parallel_for(n, piece, [&](int64_t begin, int64_t end) {
    parts[static_cast<size_t>(begin / piece)] = HWY_DYNAMIC_DISPATCH(of_any)(data, x.layout.dtype, begin, end);
  });
  ElementStatistics all;
  for (const ElementStatistics& part : parts) all.add(part);
  return all;
}

void count_exponents(const View& x, int64_t stride, std::array<uint32_t, 512>& counts) {
  const char* data = static_cast<const char*>(x.data);
  for (int64_t i = 0; i < x.layout.numel; i += stride) {
    uint32_t bits;
    std::memcpy(&bits, data + i * 4, 4);
    ++counts[bits >> 23];
  }
}

double replace_and_difference(const View& before, const View& now) {
  const int64_t n = now.layout.numel;
  float* old = static_cast<float*>(before.data);
  const float* fresh = static_cast<const float*>(now.data);
  std::vector<double> parts(static_cast<size_t>((n + piece - 1) / piece));
  parallel_for(n, piece, [&](int64_t begin, int64_t end) {
    parts[static_cast<size_t>(begin / piece)] =
        HWY_DYNAMIC_DISPATCH(difference)(old + begin, fresh + begin, end - begin);
  });
  double sum = 0;
  for (double part : parts) sum += part;
  return sum;
}

}  // namespace weft::cpu
#endif
