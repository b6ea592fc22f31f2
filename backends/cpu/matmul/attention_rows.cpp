#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/matmul/attention_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "attention_rows.hpp"
#include "../simd/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class T>
constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(Tag<T>()));
template <class T>
constexpr T lowest = static_cast<T>(-__builtin_inf());
template <class T>
constexpr T log2_e = Format<T>::log2_e;

/// Calls f(i, count) for each vector of a row; the last may be short.
template <class T, class F>
HWY_INLINE void each_vector(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) f(i, lanes<T>);
  if (i < n) f(i, n - i);
}
template <class T>
HWY_INLINE Vec<T> load(const T* from, int64_t count, T filler = 0) {
  if (count == lanes<T>) return hn::LoadU(Tag<T>(), from);
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T buffer[lanes<T>];
  for (int64_t i = 0; i < lanes<T>; ++i) buffer[i] = i < count ? from[i] : filler;
  return hn::Load(Tag<T>(), buffer);
#else
  const auto there = hn::FirstN(Tag<T>(), static_cast<size_t>(count));
  return hn::IfThenElse(there, hn::MaskedLoad(there, Tag<T>(), from), hn::Set(Tag<T>(), filler));
#endif
}
template <class T>
HWY_INLINE void store(Vec<T> x, T* to, int64_t count) {
  if (count == lanes<T>) return hn::StoreU(x.raw, Tag<T>(), to);
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T buffer[lanes<T>];
  hn::Store(x.raw, Tag<T>(), buffer);
  for (int64_t i = 0; i < count; ++i) to[i] = buffer[i];
#else
  hn::BlendedStore(x.raw, hn::FirstN(Tag<T>(), static_cast<size_t>(count)), Tag<T>(), to);
#endif
}

template <class T>
HWY_INLINE T largest(Vec<T> x) {
  return hn::GetLane(hn::MaxOfLanes(Tag<T>(), x.raw));
}
template <class T>
HWY_INLINE T total(Vec<T> x) {
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), x.raw));
}

/// The largest of a row's first `n` numbers, NaN if any is.
template <class T>
T largest_of(const T* s, int64_t n) {
  Vec<T> top(static_cast<double>(lowest<T>)), other = top;
  int64_t j = 0;
  for (; j + 2 * lanes<T> <= n; j += 2 * lanes<T>) {
    top = maximum(top, load(s + j, lanes<T>));
    other = maximum(other, load(s + j + lanes<T>, lanes<T>));
  }
  for (; j < n; j += lanes<T>) top = maximum(top, load(s + j, std::min(n - j, lanes<T>), lowest<T>));
  top = maximum(top, other);
  return any(top != top) ? static_cast<T>(__builtin_nan("")) : largest(top);
}

/// s[j] += slope * (distance + j)
template <class T>
void add_slope(T* s, int64_t n, T slope, int64_t distance) {
  const Vec<T> slopes(static_cast<double>(slope)), step(static_cast<double>(lanes<T>));
  Vec<T> at = hn::Iota(Tag<T>(), static_cast<T>(distance));
  each_vector<T>(n, [&](int64_t j, int64_t count) HWY_ATTR {
    store(fma(slopes, at, load(s + j, count)), s + j, count);
    at = at + step;
  });
}

/// The row's visible scores plus mask and slope; the factor that they still lack.
template <class T>
T add_mask(const ScoreBlock<T>& b, int64_t row) {
  if (b.mask == nullptr && b.slope == 0 && b.scale > 0) return b.scale;  // the largest stays the largest
  const int64_t from = b.begin(row), n = b.end(row) - from;
  T* s = b.scores + row * b.stride + from;
  const Vec<T> scale(static_cast<double>(b.scale));
  if (b.mask == nullptr) {
    each_vector<T>(n, [&](int64_t j, int64_t count) HWY_ATTR { store(load(s + j, count) * scale, s + j, count); });
  } else if (b.mask_column == static_cast<int64_t>(sizeof(T))) {
    const T* mask = reinterpret_cast<const T*>(b.mask + row * b.mask_row) + from;
    each_vector<T>(n, [&](int64_t j, int64_t count)
                          HWY_ATTR { store(fma(load(s + j, count), scale, load(mask + j, count)), s + j, count); });
  } else {
    const char* mask = b.mask + row * b.mask_row + from * b.mask_column;
    for (int64_t j = 0; j < n; ++j) s[j] = s[j] * b.scale + *reinterpret_cast<const T*>(mask + j * b.mask_column);
  }
  if (b.slope != 0) add_slope(s, n, b.slope, b.distance + from - row);
  return 1;
}

/// The row's visible scores to 2^(factor score - top), zeros before and behind them; their sum.
template <class T>
T exponentials(const ScoreBlock<T>& b, int64_t row, T factor, T top) {
  const int64_t from = b.begin(row), n = b.end(row) - from;
  T* s = b.scores + row * b.stride;
  std::fill_n(s, from, T{0});
  s += from;
  const Vec<T> times(static_cast<double>(factor)), shift(static_cast<double>(-top));
  Vec<T> sum = hn::Zero(Tag<T>());
  each_vector<T>(n, [&](int64_t j, int64_t count) HWY_ATTR {
    // Rounded as `top` was, so that the largest is 0 whatever its size; a sum of huge scores may be rounded below it.
    const Vec<T> e = exp2_of_nonpositive(capped(load(s + j, count, lowest<T>) * times + shift, 0));
    store(e, s + j, count);
    sum = sum + e;
  });
  for (int64_t j = n; j < b.columns - from; ++j) s[j] = 0;
  return total(sum);
}

template <class T>
void zero_row(const ScoreBlock<T>& b, int64_t row) {
  for (int64_t j = 0; j < b.columns; ++j) b.scores[row * b.stride + j] = 0;
}

template <class T>
T exp2_of(T x) {
  return hn::GetLane(exp2_of_nonpositive(Vec<T>(static_cast<double>(x))).raw);
}

template <class T>
void softmax(const ScoreBlock<T>& b, const SoftmaxState<T>& state) {
  for (int64_t i = 0; i < b.rows; ++i) {
    const int64_t from = b.begin(i);
    const T factor = add_mask(b, i) * log2_e<T>;
    const T block_top = largest_of(b.scores + i * b.stride + from, b.end(i) - from) * factor;
    const T before = state.top[i], top = block_top <= before ? before : block_top;
    state.top[i] = top;
    if (top == lowest<T>) {  // nothing was visible so far
      zero_row(b, i);
      state.rescale[i] = 1;
      continue;
    }
    state.rescale[i] = before == lowest<T> ? 0 : before == top ? 1 : exp2_of(before - top);
    state.sum[i] = state.sum[i] * state.rescale[i] + exponentials(b, i, factor, top);
  }
}

template <class T>
void weights(const ScoreBlock<T>& b, const T* log_sum_exp) {
  for (int64_t i = 0; i < b.rows; ++i) {
    if (log_sum_exp[i] == lowest<T>) {
      zero_row(b, i);
      continue;
    }
    const T factor = add_mask(b, i) * log2_e<T>;
    exponentials(b, i, factor, log_sum_exp[i] * log2_e<T>);
  }
}

template <class T>
void score_gradient(const ScoreBlock<T>& weights, T* d, const T* delta) {
  const Vec<T> scale(static_cast<double>(weights.scale));
  for (int64_t i = 0; i < weights.rows; ++i) {
    const Vec<T> shift(static_cast<double>(delta[i]));
    const T* p = weights.scores + i * weights.stride;
    T* row = d + i * weights.stride;
    each_vector<T>(weights.columns, [&](int64_t j, int64_t count) HWY_ATTR {
      const Vec<T> x = load(p + j, count);
      // A weight of 0 gives 0 whatever the gradient is.
      const Vec<T> y = x * (load(row + j, count) - shift) * scale;
      store(select(x == zero_like(x), zero_like(x), y), row + j, count);
    });
  }
}

template <class T>
void scale_all(int64_t rows, int64_t columns, T* x, int64_t stride, const T* factor) {
  for (int64_t i = 0; i < rows; ++i) {
    const Vec<T> f(static_cast<double>(factor[i]));
    T* row = x + i * stride;
    if (factor[i] == 1) continue;
    if (factor[i] == 0) {
      for (int64_t j = 0; j < columns; ++j) row[j] = 0;
      continue;
    }
    each_vector<T>(columns,
                   [&](int64_t j, int64_t count) HWY_ATTR { store(load(row + j, count) * f, row + j, count); });
  }
}

template <class T>
void dot_all(int64_t rows, int64_t columns, const T* x, int64_t x_stride, const T* y, int64_t y_stride, T* dots) {
  for (int64_t i = 0; i < rows; ++i) {
    Vec<T> sum = hn::Zero(Tag<T>());
    each_vector<T>(columns, [&](int64_t j, int64_t count) HWY_ATTR {
      sum = fma(load(x + i * x_stride + j, count), load(y + i * y_stride + j, count), sum);
    });
    dots[i] = total(sum);
  }
}

#define WEFT_FOR_TYPE(T, name)                                                                                 \
  void softmax_##name(const ScoreBlock<T>& b, const SoftmaxState<T>& s) { softmax(b, s); }                     \
  void weights_##name(const ScoreBlock<T>& b, const T* l) { weights(b, l); }                                   \
  void score_gradient_##name(const ScoreBlock<T>& w, T* d, const T* delta) { score_gradient(w, d, delta); }    \
  void scale_##name(int64_t m, int64_t n, T* x, int64_t stride, const T* f) { scale_all(m, n, x, stride, f); } \
  void dot_##name(int64_t m, int64_t n, const T* x, int64_t xs, const T* y, int64_t ys, T* dots) {             \
    dot_all(m, n, x, xs, y, ys, dots);                                                                         \
  }
WEFT_FOR_TYPE(float, f32)
WEFT_FOR_TYPE(double, f64)
#undef WEFT_FOR_TYPE

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

#define WEFT_FOR_TYPE(T, name)                                                                                         \
  HWY_EXPORT(softmax_##name);                                                                                          \
  HWY_EXPORT(weights_##name);                                                                                          \
  HWY_EXPORT(score_gradient_##name);                                                                                   \
  HWY_EXPORT(scale_##name);                                                                                            \
  HWY_EXPORT(dot_##name);                                                                                              \
  void softmax_block(const ScoreBlock<T>& b, const SoftmaxState<T>& s) { HWY_DYNAMIC_DISPATCH(softmax_##name)(b, s); } \
  void weights_block(const ScoreBlock<T>& b, const T* l) { HWY_DYNAMIC_DISPATCH(weights_##name)(b, l); }               \
  void score_gradient_block(const ScoreBlock<T>& w, T* d, const T* delta) {                                            \
    HWY_DYNAMIC_DISPATCH(score_gradient_##name)(w, d, delta);                                                          \
  }                                                                                                                    \
  void scale_rows(int64_t m, int64_t n, T* x, int64_t stride, const T* f) {                                            \
    HWY_DYNAMIC_DISPATCH(scale_##name)(m, n, x, stride, f);                                                            \
  }                                                                                                                    \
  void dot_rows(int64_t m, int64_t n, const T* x, int64_t xs, const T* y, int64_t ys, T* dots) {                       \
    HWY_DYNAMIC_DISPATCH(dot_##name)(m, n, x, xs, y, ys, dots);                                                        \
  }
WEFT_FOR_TYPE(float, f32)
WEFT_FOR_TYPE(double, f64)
#undef WEFT_FOR_TYPE

}  // namespace weft::cpu
#endif
