// Sums of a table's rows, bag by bag.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/index/bag.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "crowd.hpp"
#include "indices.hpp"
#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class T>
struct Table {
  const T* weight;
  int64_t rows, width, padding;
  const int64_t* indices;
  const T* factors;
};

/// to[0, 16 * blocks) = the sum over the indices [begin, end) of these columns of their rows; `left` of them exist.
template <int blocks, class T>
HWY_INLINE void sum_few(const Table<T>& table, int64_t begin, int64_t end, int64_t column, int64_t left, T scale,
                        T* to) {
  Lanes<T> sums[blocks];
  HWY_UNROLL(4) for (int b = 0; b < blocks; ++b) sums[b] = Lanes<T>(T(0));
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = table.indices[i];
    if (row == table.padding) continue;
    const T* const from = table.weight + row * table.width + column;
    const Lanes<T> factor(table.factors != nullptr ? table.factors[i] : T(1));
    HWY_UNROLL(4) for (int b = 0; b < blocks; ++b) {
      sums[b] = sums[b] + Lanes<T>::load(from + b * lane_count, left - b * lane_count, T(0)) * factor;
    }
  }
  HWY_UNROLL(4) for (int b = 0; b < blocks; ++b) {
    (sums[b] * Lanes<T>(scale)).store(to + b * lane_count, left - b * lane_count);
  }
}

/// Sums of many are carried in double, to which a few are added at a time.
template <int blocks, class T>
HWY_ATTR HWY_NOINLINE void sum_many(const Table<T>& table, int64_t begin, int64_t end, int64_t column, int64_t left,
                                    T scale, T* to) {
  constexpr int64_t width = blocks * lane_count, step = 16;
  const int64_t columns = std::min(left, width);
  T part[width] = {};
  double total[width] = {};
  for (; begin < end; begin += step) {
    sum_few<blocks>(table, begin, std::min(begin + step, end), column, columns, T(1), part);
    for (int64_t j = 0; j < width; ++j) total[j] += static_cast<double>(part[j]);
  }
  for (int64_t j = 0; j < columns; ++j) to[j] = static_cast<T>(total[j] * static_cast<double>(scale));
}
template <int blocks, class T>
HWY_INLINE void sum_columns(const Table<T>& table, int64_t begin, int64_t end, int64_t column, int64_t left, T scale,
                            T* to) {
  if (end - begin > few_terms) return sum_many<blocks>(table, begin, end, column, left, scale, to);
  sum_few<blocks>(table, begin, end, column, left, scale, to);
}

int64_t bags_at_once(int64_t bags, int64_t n, int64_t width) {
  const int64_t work = width * (n / std::max<int64_t>(bags, 1) + 1);
  return std::max<int64_t>(1, 32768 / std::max<int64_t>(work, 1));
}

template <class T>
void sum_bags(const View& out, const View& counts, const View& weight, const View& indices, const View& begins,
              const View& factors, int64_t padding, bool mean) {
  const int64_t bags = out.layout.sizes[0], width = out.layout.sizes[1], n = indices.layout.numel;
  const Table<T> table{static_cast<const T*>(weight.data),
                       weight.layout.sizes[0],
                       width,
                       padding,
                       static_cast<const int64_t*>(indices.data),
                       static_cast<const T*>(factors.data)};
  const auto* const first = static_cast<const int64_t*>(begins.data);
  parallel_for(bags, bags_at_once(bags, n, width), [&](int64_t from, int64_t to) HWY_ATTR {
    for (int64_t bag = from; bag < to; ++bag) {
      const int64_t begin = first[bag], end = bag + 1 < bags ? first[bag + 1] : n;
      int64_t count = end - begin;
      for (int64_t i = begin; padding >= 0 && i < end; ++i) count -= table.indices[i] == padding;
      static_cast<T*>(counts.data)[bag] = static_cast<T>(count);
      const T scale = mean && count > 0 ? T(1) / static_cast<T>(count) : T(1);
      T* const line = static_cast<T*>(out.data) + bag * width;
      int64_t j = 0;
      for (; j + 4 * lane_count <= width; j += 4 * lane_count) {
        sum_columns<4>(table, begin, end, j, 4 * lane_count, scale, line + j);
      }
      for (; j < width; j += lane_count) sum_columns<1>(table, begin, end, j, width - j, scale, line + j);
    }
  });
}

/// Places count from the bag's first index, in numbers as wide as T, so that both are chosen in one step.
template <class T>
void best_of_bags(const View& out, const View& place, const View& weight, const View& indices, const View& begins,
                  int64_t padding) {
  using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const int64_t bags = out.layout.sizes[0], width = out.layout.sizes[1], n = indices.layout.numel;
  const auto* const first = static_cast<const int64_t*>(begins.data);
  const auto* const given = static_cast<const int64_t*>(indices.data);
  parallel_for(bags, bags_at_once(bags, n, width), [&](int64_t from, int64_t to) HWY_ATTR {
    const Scratch memory(width * static_cast<int64_t>(sizeof(Place)));
    for (int64_t bag = from; bag < to; ++bag) {
      T* HWY_RESTRICT best = static_cast<T*>(out.data) + bag * width;
      Place* HWY_RESTRICT at = memory.as<Place>();
      std::fill_n(best, width, T(0));
      std::fill_n(at, width, Place{-1});
      const int64_t begin = first[bag], end = bag + 1 < bags ? first[bag + 1] : n;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = given[i];
        if (row == padding) continue;
        const T* HWY_RESTRICT x = static_cast<const T*>(weight.data) + row * width;
        for (int64_t j = 0; j < width; ++j) {
          const bool takes = (at[j] < 0) | (x[j] > best[j]) | ((x[j] != x[j]) & (best[j] == best[j]));
          best[j] = takes ? x[j] : best[j];
          at[j] = takes ? static_cast<Place>(i - begin) : at[j];
        }
      }
      int64_t* const places = static_cast<int64_t*>(place.data) + bag * width;
      for (int64_t j = 0; j < width; ++j) places[j] = at[j] < 0 ? -1 : begin + at[j];
    }
  });
}

void sum_bags_f32(const View& out, const View& counts, const View& weight, const View& indices, const View& begins,
                  const View& factors, int64_t padding, bool mean) {
  sum_bags<float>(out, counts, weight, indices, begins, factors, padding, mean);
}
void sum_bags_f64(const View& out, const View& counts, const View& weight, const View& indices, const View& begins,
                  const View& factors, int64_t padding, bool mean) {
  sum_bags<double>(out, counts, weight, indices, begins, factors, padding, mean);
}
void best_of_bags_any(const View& out, const View& place, const View& weight, const View& indices, const View& begins,
                      int64_t padding) {
  if (weight.layout.dtype == DType::f32) best_of_bags<float>(out, place, weight, indices, begins, padding);
  else best_of_bags<double>(out, place, weight, indices, begins, padding);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(sum_bags_f32);
HWY_EXPORT(sum_bags_f64);
HWY_EXPORT(best_of_bags_any);

namespace {

void check_bags(const char* kernel, const View& weight, const View& indices, int64_t padding) {
  const DType t = weight.layout.dtype;
  if (t != DType::f32 && t != DType::f64) unsupported(kernel, weight);
  const auto* const given = static_cast<const int64_t*>(indices.data);
  const int64_t rows = weight.layout.sizes[0];
  for (int64_t i = 0; i < indices.layout.numel; ++i) {
    const bool counts = padding < 0 || given[i] != padding;
    if (counts && (given[i] < 0 || given[i] >= rows)) index_out_of_range(given[i], 0, rows, false);
  }
}

}  // namespace

void bag_sum(const View& out, const View& counts, const View& weight, const View& indices, const View& begins,
             const View& factors, int64_t padding, bool mean) {
  check_bags("bag_sum", weight, indices, padding);
  if (weight.layout.dtype == DType::f32) {
    HWY_DYNAMIC_DISPATCH(sum_bags_f32)(out, counts, weight, indices, begins, factors, padding, mean);
  } else {
    HWY_DYNAMIC_DISPATCH(sum_bags_f64)(out, counts, weight, indices, begins, factors, padding, mean);
  }
}
void bag_max(const View& out, const View& place, const View& weight, const View& indices, const View& begins,
             int64_t padding) {
  check_bags("bag_max", weight, indices, padding);
  HWY_DYNAMIC_DISPATCH(best_of_bags_any)(out, place, weight, indices, begins, padding);
}

}  // namespace weft::cpu
#endif
