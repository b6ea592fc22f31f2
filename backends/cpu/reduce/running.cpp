// Running extremes and sums of exponentials, in plain loops that each SIMD target compiles.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/reduce/running.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "columns.hpp"
#include "../kernels.hpp"
#include "../lines.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// x as [outer, n, inner]: lines of n elements, `inner` apart.
struct Lines {
  int64_t outer = 1, n = 1, inner = 1;
  Lines(const Layout& x, int dim) {
    for (int d = 0; d < x.rank; ++d) (d == dim ? n : d < dim ? outer : inner) *= x.sizes[d];
  }
};

constexpr int64_t column_block = 2048;

// Calls body(offset of the first element, width) for blocks of neighbouring columns.
template <class F>
void each_block(const Lines& lines, F&& body) {
  const int64_t width = block_width(lines.inner, lines.outer, column_block), blocks = (lines.inner + width - 1) / width;
  parallel_for(lines.outer * blocks, rows_per_chunk(lines.n * width), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t % blocks * width;
      body(t / blocks * lines.n * lines.inner + first, std::min(width, lines.inner - first));
    }
  });
}

// ---- sums of exponentials -------------------------------------------------------------------------------------------

// log(sum of exp) as the largest so far and the sum relative to it.
struct LogSum {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  double add(double x) {
    if (x > most) {
      sum = sum * std::exp(most - x) + 1;
      most = x;
    } else if (x == most) {
      sum += 1;
    } else {
      sum += std::exp(x - most);
    }
    return std::isinf(most) && !std::isnan(sum) ? most : most + std::log(sum);
  }
};

template <class T>
void log_sums(const View& out, const View& x, const Lines& lines) {
  auto* const y = static_cast<T*>(out.data);
  auto* const given = static_cast<const T*>(x.data);
  parallel_for(lines.outer * lines.inner, rows_per_chunk(lines.n * 8), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t first = line / lines.inner * lines.n * lines.inner + line % lines.inner;
      LogSum so_far;
      for (int64_t i = 0; i < lines.n; ++i) {
        const int64_t at = first + i * lines.inner;
        y[at] = static_cast<T>(so_far.add(static_cast<double>(given[at])));
      }
    }
  });
}

// ---- extremes -------------------------------------------------------------------------------------------------------

template <bool largest, class T>
bool takes_over(T x, T so_far) {
  return static_cast<bool>(static_cast<int>(largest ? x >= so_far : x <= so_far) | static_cast<int>(x != x));
}

template <bool largest, class T>
void extreme_line(T* y, int64_t* index, const T* x, int64_t n) {
  T value = x[0];
  int64_t place = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (takes_over<largest>(x[i], value)) {
      value = x[i];
      place = i;
    }
    y[i] = value;
    index[i] = place;
  }
}

template <bool largest, class Place, class T>
void extreme_columns(T* y, int64_t* index, const T* x, int64_t n, int64_t stride, int64_t width) {
  alignas(64) T value[column_block];
  alignas(64) Place place[column_block];
  std::copy_n(x, width, value);
  std::fill_n(place, width, Place{0});
  for (int64_t i = 0; i < n; ++i) {
    const T* const now = x + i * stride;
    T* const to = y + i * stride;
    int64_t* const to_index = index + i * stride;
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) {
      const bool takes = takes_over<largest>(now[j], value[j]);
      to[j] = value[j] = takes ? now[j] : value[j];
      to_index[j] = place[j] = takes ? static_cast<Place>(i) : place[j];
    }
  }
}

template <bool largest, class T>
void extremes(const View& out, const View& index, const View& x, const Lines& lines) {
  auto* const y = static_cast<T*>(out.data);
  auto* const places = static_cast<int64_t*>(index.data);
  auto* const given = static_cast<const T*>(x.data);
  each_block(lines, [&](int64_t at, int64_t width) HWY_ATTR {
    if (lines.inner == 1) return extreme_line<largest>(y + at, places + at, given + at, lines.n);
    const bool short_places = lines.n <= std::numeric_limits<int32_t>::max();
    const auto walk = short_places ? extreme_columns<largest, int32_t, T> : extreme_columns<largest, int64_t, T>;
    walk(y + at, places + at, given + at, lines.n, lines.inner, width);
  });
}

void log_sum_any(const View& out, const View& x, int dim) {
  const Lines lines(x.layout, dim);
  if (x.layout.dtype == DType::f64) log_sums<double>(out, x, lines);
  else log_sums<float>(out, x, lines);
}

void extreme_any(const View& out, const View& index, const View& x, int dim, bool largest) {
  const Lines lines(x.layout, dim);
  visit_dtype(x.layout.dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      if (largest) extremes<true, T>(out, index, x, lines);
      else extremes<false, T>(out, index, x, lines);
    }
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(log_sum_any);
HWY_EXPORT(extreme_any);

void running_log_sum_exp(const View& out, const View& x, int dim) {
  if (x.layout.dtype != DType::f32 && x.layout.dtype != DType::f64) unsupported("running_log_sum_exp", x);
  HWY_DYNAMIC_DISPATCH(log_sum_any)(out, x, dim);
}
void running_extreme(const View& out, const View& index, const View& x, int dim, bool largest) {
  const DType t = x.layout.dtype;
  if (t == DType::boolean || (is_floating(t) && compute_type(t) != t)) unsupported("running_extreme", x);
  HWY_DYNAMIC_DISPATCH(extreme_any)(out, index, x, dim, largest);
}

}  // namespace weft::cpu
#endif
