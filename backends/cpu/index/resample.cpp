// Lines of weighted sums of another line's elements.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/index/resample.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "crowd.hpp"
#include "../kernels.hpp"
#include "../lines.hpp"
#include "../simd/lanes-inl.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class T>
struct Taps {
  using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const Index* at;
  const T* weights;
  int64_t count, to;
};

/// Contiguous elements.
template <class T>
HWY_ATTR void resample_line(T* out, const T* x, const Taps<T>& taps) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d));
  int64_t o = 0;
  for (; o + width <= taps.to; o += width) {
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < taps.count; ++t) {
      const auto index = hn::LoadU(di, taps.at + t * taps.to + o);
      const auto there = hn::RebindMask(d, hn::Gt(index, hn::Set(di, -1)));
      const auto found = hn::GatherIndex(d, x, hn::Max(index, hn::Zero(di)));
      sum = hn::Add(sum, hn::IfThenElseZero(there, hn::Mul(found, hn::LoadU(d, taps.weights + t * taps.to + o))));
    }
    hn::StoreU(sum, d, out + o);
  }
  for (; o < taps.to; ++o) {
    T sum = 0;
    for (int64_t i = o; i < taps.count * taps.to; i += taps.to) {
      if (taps.at[i] >= 0) sum += x[taps.at[i]] * taps.weights[i];
    }
    out[o] = sum;
  }
}

/// Element `o`, which is a row of `inner` numbers as those of x are, from number `i` on: `parts` registers at a time as
/// long as so many are left. Returns where it stopped.
template <int parts, class T>
HWY_ATTR int64_t resample_part(T* out, const T* x, int64_t inner, const Taps<T>& taps, int64_t o, int64_t i) {
  const hn::ScalableTag<T> d;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d)), end = taps.count * taps.to;
  for (; i + parts * width <= inner; i += parts * width) {
    hn::Vec<decltype(d)> sum[parts];
    for (auto& part : sum) part = hn::Zero(d);
    for (int64_t t = o; t < end; t += taps.to) {
      if (taps.at[t] < 0) continue;
      const T* const from = x + taps.at[t] * inner + i;
      const auto weight = hn::Set(d, taps.weights[t]);
      WEFT_EACH_PART(parts) sum[k] = hn::MulAdd(hn::LoadU(d, from + k * width), weight, sum[k]);
    }
    WEFT_EACH_PART(parts) hn::StoreU(sum[k], d, out + i + k * width);
  }
  return i;
}

template <class T>
HWY_ATTR void resample_row(T* out, const T* x, int64_t inner, const Taps<T>& taps, int64_t o) {
  int64_t i = resample_part<4>(out, x, inner, taps, o, 0);
  i = resample_part<1>(out, x, inner, taps, o, i);
  for (; i < inner; ++i) {
    T sum = 0;
    for (int64_t t = o; t < taps.count * taps.to; t += taps.to) {
      if (taps.at[t] >= 0) sum += x[taps.at[t] * inner + i] * taps.weights[t];
    }
    out[i] = sum;
  }
}

/// As resample_row, of many taps: the sums are carried in double.
template <class T>
void resample_many(T* out, const T* x, int64_t inner, const Taps<T>& taps, int64_t o) {
  constexpr int64_t block = 64;
  for (int64_t begin = 0; begin < inner; begin += block) {
    const int64_t n = std::min(block, inner - begin);
    double sum[block] = {};
    for (int64_t t = o; t < taps.count * taps.to; t += taps.to) {
      if (taps.at[t] < 0) continue;
      const T* const from = x + taps.at[t] * inner + begin;
      const auto weight = static_cast<double>(taps.weights[t]);
      for (int64_t k = 0; k < n; ++k) sum[k] += static_cast<double>(from[k]) * weight;
    }
    for (int64_t k = 0; k < n; ++k) out[begin + k] = static_cast<T>(sum[k]);
  }
}

template <class T>
void resample_lines(const View& out, const View& x, const View& at, const View& weights, int dim) {
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < dim; ++d) outer *= x.layout.sizes[d];
  for (int d = dim + 1; d < x.layout.rank; ++d) inner *= x.layout.sizes[d];
  const int64_t from = x.layout.sizes[dim], to = out.layout.sizes[dim];
  const Taps<T> taps = {static_cast<const typename Taps<T>::Index*>(at.data), static_cast<const T*>(weights.data),
                        at.layout.sizes[0], to};
  auto* const y = static_cast<T*>(out.data);
  auto* const elements = static_cast<const T*>(x.data);
  const bool many = taps.count > few_terms;
  if (inner == 1 && !many) {
    return parallel_for(outer, rows_per_chunk(to * taps.count), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) resample_line(y + i * to, elements + i * from, taps);
    });
  }
  parallel_for(outer * to, rows_per_chunk(inner * taps.count), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* const line = elements + i / to * from * inner;
      if (many) resample_many(y + i * inner, line, inner, taps, i % to);
      else resample_row(y + i * inner, line, inner, taps, i % to);
    }
  });
}

void resample_any(const View& out, const View& x, const View& at, const View& weights, int dim) {
  if (x.layout.dtype == DType::f32) resample_lines<float>(out, x, at, weights, dim);
  else resample_lines<double>(out, x, at, weights, dim);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(resample_any);

void resample(const View& out, const View& x, const View& at, const View& weights, int dim) {
  if (x.layout.dtype != DType::f32 && x.layout.dtype != DType::f64) unsupported("resample", x);
  if (out.layout.numel != 0) HWY_DYNAMIC_DISPATCH(resample_any)(out, x, at, weights, dim);
}

}  // namespace weft::cpu
#endif
