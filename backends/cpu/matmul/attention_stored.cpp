#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/matmul/attention_stored.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "attention_stored.hpp"
#include "../read_ahead.hpp"
#include "../simd/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class T>
constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(Tag<T>()));
/// The number of keys with heads visited together, if those are contiguous.
constexpr int64_t keys_per_visit = 4;

/// A register of numbers that are stored as K.
template <class T, class K>
HWY_INLINE Raw<T> load(const K* from) {
  if constexpr (std::is_same_v<T, K>) return hn::LoadU(Tag<T>(), from);
  else return hn::PromoteTo(Tag<T>(), hn::LoadU(hn::Rebind<K, Tag<T>>(), from));
}
/// Means the count of a whole register.
struct FullRegister {};
template <class T, class K>
HWY_INLINE Raw<T> load(const K* from, FullRegister) {
  return load<T>(from);
}
template <class T, class K>
HWY_INLINE Raw<T> load(const K* from, int64_t count) {
  K buffer[lanes<T>] = {};
  std::copy_n(from, count, buffer);
  return load<T>(buffer);
}

template <class T>
HWY_INLINE void store(Raw<T> x, T* to, FullRegister) {
  hn::StoreU(x, Tag<T>(), to);
}
template <class T>
HWY_INLINE void store(Raw<T> x, T* to, int64_t count) {
  T buffer[lanes<T>];
  hn::StoreU(x, Tag<T>(), buffer);
  std::copy_n(buffer, count, to);
}

template <class K>
struct Stored {
  using Element = K;
  const char* data;
  int64_t row, head;
  const K* at(int64_t group, int64_t j) const { return reinterpret_cast<const K*>(data + group * head + j * row); }
};

/// Calls f(the rows) with the type that they are stored in.
template <class T, class F>
HWY_INLINE void with_stored(const StoredRows& rows, F&& f) {
  if constexpr (sizeof(T) == 4) {
    if (rows.dtype == DType::f16) return f(Stored<hwy::float16_t>{rows.data, rows.row, rows.head});
    if (rows.dtype == DType::bf16) return f(Stored<hwy::bfloat16_t>{rows.data, rows.row, rows.head});
  }
  f(Stored<T>{rows.data, rows.row, rows.head});
}

/// Calls f(group, j, count) for keys [0, n) of every group. Contiguous heads are prefetched in memory order, one visit
/// ahead, independent of the order in which rows are used.
template <class F>
HWY_INLINE void each_visit(const StoredRows& rows, int64_t groups, int64_t n, F&& f) {
  const bool side_by_side = rows.head <= rows.row;
  const int64_t visit = side_by_side ? keys_per_visit : n;
  for (int64_t j = 0; j < n; j += visit) {
    const int64_t next = j + visit, share = std::clamp<int64_t>(n - next, 0, visit) * rows.head;
    for (int64_t group = 0; group < groups; ++group) {
      prefetch(rows.data + next * rows.row + group * share, share);
      f(group, j, std::min(visit, n - j));
    }
  }
}

/// Calls f(first, count) for four, two or one of n at a time; the count is a constant.
template <class F>
HWY_INLINE void each_few(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) f(i, std::integral_constant<int, 4>());
  if (i + 2 <= n) f(i, std::integral_constant<int, 2>()), i += 2;
  if (i < n) f(i, std::integral_constant<int, 1>());
}

/// The scores of R queries and N keys that are `row` bytes apart.
template <class T, class K, int R, int N>
HWY_INLINE void dots(const T* const* q, const K* keys, int64_t row, int64_t depth, T* scores, int64_t stride) {
  Raw<T> sum[R][N];
  HWY_UNROLL(8)
  for (auto& line : sum) {
    HWY_UNROLL(8)
    for (auto& x : line) x = hn::Zero(Tag<T>());
  }
  const auto step = [&](int64_t d, auto count) HWY_ATTR WEFT_INLINE {
    Raw<T> key[N];
    HWY_UNROLL(8)
    for (int n = 0; n < N; ++n) {
      key[n] = load<T>(reinterpret_cast<const K*>(reinterpret_cast<const char*>(keys + d) + n * row), count);
    }
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      const Raw<T> x = load<T>(q[r] + d, count);
      HWY_UNROLL(8)
      for (int n = 0; n < N; ++n) sum[r][n] = hn::MulAdd(x, key[n], sum[r][n]);
    }
  };
  int64_t d = 0;
  for (; d + lanes<T> <= depth; d += lanes<T>) step(d, FullRegister());
  if (d < depth) step(d, depth - d);
  HWY_UNROLL(8)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(8)
    for (int n = 0; n < N; ++n) scores[r * stride + n] = hn::GetLane(hn::SumOfLanes(Tag<T>(), sum[r][n]));
  }
}

template <class T>
void score(StoredQueries n, int64_t count, int64_t depth, const T* const* q, const StoredRows& keys, T* scores,
           int64_t stride) {
  with_stored<T>(keys, [&](auto rows) HWY_ATTR {
    each_visit(keys, n.groups, count, [&](int64_t group, int64_t first, int64_t keys_here) HWY_ATTR {
      each_few(n.queries, [&](int64_t query, auto queries) HWY_ATTR {
        using K = typename decltype(rows)::Element;
        constexpr int R = queries(), N = 4 / (R > 2 ? 2 : 1);
        const int64_t line = group * n.queries + query, end = first + keys_here;
        T* to = scores + line * stride;
        int64_t j = first;
        for (; j + N <= end; j += N) {
          dots<T, K, R, N>(q + line, rows.at(group, j), rows.row, depth, to + j, stride);
        }
        for (; j < end; ++j) dots<T, K, R, 1>(q + line, rows.at(group, j), rows.row, depth, to + j, stride);
      });
    });
  });
}

/// out[r] += the sum of N rows of values times their weights.
template <class T, class K, int R, int N>
HWY_INLINE void add(const T* weights, int64_t stride, const K* values, int64_t row, int64_t width, T* out) {
  const auto step = [&](int64_t d, auto count) HWY_ATTR WEFT_INLINE {
    Raw<T> value[N];
    HWY_UNROLL(8)
    for (int n = 0; n < N; ++n) {
      value[n] = load<T>(reinterpret_cast<const K*>(reinterpret_cast<const char*>(values + d) + n * row), count);
    }
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      T* to = out + r * width + d;
      Raw<T> sum = load<T>(to, count);
      HWY_UNROLL(8)
      for (int n = 0; n < N; ++n) sum = hn::MulAdd(hn::Set(Tag<T>(), weights[r * stride + n]), value[n], sum);
      store<T>(sum, to, count);
    }
  };
  int64_t d = 0;
  for (; d + lanes<T> <= width; d += lanes<T>) step(d, FullRegister());
  if (d < width) step(d, width - d);
}

template <class T>
void add_weighted(StoredQueries n, int64_t count, int64_t width, const T* weights, int64_t stride,
                  const StoredRows& values, T* out) {
  with_stored<T>(values, [&](auto rows) HWY_ATTR {
    each_visit(values, n.groups, count, [&](int64_t group, int64_t first, int64_t keys_here) HWY_ATTR {
      each_few(n.queries, [&](int64_t query, auto queries) HWY_ATTR {
        using K = typename decltype(rows)::Element;
        constexpr int R = queries(), N = 4;
        const int64_t line = group * n.queries + query, end = first + keys_here;
        const T* own = weights + line * stride;
        T* to = out + line * width;
        int64_t j = first;
        for (; j + N <= end; j += N) {
          add<T, K, R, N>(own + j, stride, rows.at(group, j), rows.row, width, to);
        }
        for (; j < end; ++j) add<T, K, R, 1>(own + j, stride, rows.at(group, j), rows.row, width, to);
      });
    });
  });
}

template <class T>
void widen(int64_t count, int64_t width, const StoredRows& from, T* to) {
  with_stored<T>(from, [&](auto rows) HWY_ATTR {
    for (int64_t j = 0; j < count; ++j, to += width) {
      int64_t d = 0;
      for (; d + lanes<T> <= width; d += lanes<T>) hn::StoreU(load<T>(rows.at(0, j) + d), Tag<T>(), to + d);
      if (d == width) continue;
      T buffer[lanes<T>];
      hn::StoreU(load<T>(rows.at(0, j) + d, width - d), Tag<T>(), buffer);
      std::copy_n(buffer, width - d, to + d);
    }
  });
}

#define WEFT_FOR_TYPE(T, name)                                                                                        \
  void score_##name(StoredQueries n, int64_t count, int64_t depth, const T* const* q, StoredRows keys, T* scores,     \
                    int64_t stride) {                                                                                 \
    score(n, count, depth, q, keys, scores, stride);                                                                  \
  }                                                                                                                   \
  void add_##name(StoredQueries n, int64_t count, int64_t width, const T* weights, int64_t stride, StoredRows values, \
                  T* out) {                                                                                           \
    add_weighted(n, count, width, weights, stride, values, out);                                                      \
  }                                                                                                                   \
  void widen_##name(int64_t count, int64_t width, StoredRows rows, T* to) { widen(count, width, rows, to); }
WEFT_FOR_TYPE(float, f32)
WEFT_FOR_TYPE(double, f64)
#undef WEFT_FOR_TYPE

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

#define WEFT_FOR_TYPE(T, name)                                                                                        \
  HWY_EXPORT(score_##name);                                                                                           \
  HWY_EXPORT(add_##name);                                                                                             \
  HWY_EXPORT(widen_##name);                                                                                           \
  void score_stored(StoredQueries n, int64_t count, int64_t depth, const T* const* q, StoredRows keys, T* scores,     \
                    int64_t stride) {                                                                                 \
    HWY_DYNAMIC_DISPATCH(score_##name)(n, count, depth, q, keys, scores, stride);                                     \
  }                                                                                                                   \
  void add_stored(StoredQueries n, int64_t count, int64_t width, const T* weights, int64_t stride, StoredRows values, \
                  T* out) {                                                                                           \
    HWY_DYNAMIC_DISPATCH(add_##name)(n, count, width, weights, stride, values, out);                                  \
  }                                                                                                                   \
  void widen_stored(int64_t count, int64_t width, StoredRows rows, T* to) {                                           \
    HWY_DYNAMIC_DISPATCH(widen_##name)(count, width, rows, to);                                                       \
  }
WEFT_FOR_TYPE(float, f32)
WEFT_FOR_TYPE(double, f64)
#undef WEFT_FOR_TYPE

}  // namespace weft::cpu
#endif
