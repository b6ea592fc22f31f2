#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/matmul/skinny.cpp"
#include <hwy/foreach_target.h>
#include "../simd/blocks-inl.hpp"

#include <algorithm>
#include <cstring>

#include "../lines.hpp"
#include "skinny.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;
constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(Tag()));

HWY_INLINE Vec widened(const float* from) { return hn::LoadU(Tag(), from); }
HWY_INLINE Vec widened(const hwy::float16_t* from) {
  return hn::PromoteTo(Tag(), hn::LoadU(hn::Rebind<hwy::float16_t, Tag>(), from));
}
HWY_INLINE Vec widened(const hwy::bfloat16_t* from) {
  const auto bits = hn::LoadU(hn::Rebind<uint16_t, Tag>(), reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(Tag(), hn::ShiftLeft<16>(hn::PromoteTo(hn::Rebind<uint32_t, Tag>(), bits)));
}
/// The first `count` numbers, and zeros.
template <class T>
HWY_INLINE Vec widened(const T* from, int64_t count) {
  if (count >= lanes) return widened(from);
  alignas(64) T buffer[lanes] = {};
  std::memcpy(static_cast<void*>(buffer), from, static_cast<size_t>(count) * sizeof(T));
  return widened(buffer);
}

/// Rows of b that are added at once.
constexpr int depth = 8;

/// Adds the products of `deep` rows of b, `row` apart, to the sums [rows], or stores them. The columns are whole
/// vectors.
template <class T, int rows, int deep>
HWY_INLINE void add_rows(int64_t n, const float* a, int64_t k, const T* b, int64_t row, bool first, float* c,
                         int64_t stride) {
  for (int64_t j = 0; j < n; j += lanes) {
    Vec right[deep];
#pragma GCC unroll 8
    for (int p = 0; p < deep; ++p) right[p] = widened(b + p * row + j);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      float* const to = c + i * stride + j;
      Vec sum = first ? hn::Zero(Tag()) : hn::LoadU(Tag(), to);
#pragma GCC unroll 8
      for (int p = 0; p < deep; ++p) sum = hn::MulAdd(hn::Set(Tag(), a[i * k + p]), right[p], sum);
      hn::StoreU(sum, Tag(), to);
    }
  }
}

/// The columns behind the last whole vector, n of them.
template <class T>
HWY_NOINLINE void add_last_columns(int64_t m, int64_t n, int64_t k, const float* a, const T* b, int64_t row, float* c,
                                   int64_t stride) {
  alignas(64) float sums[skinny_rows * lanes] = {};
  for (int64_t p = 0; p < k; ++p) {
    const Vec right = widened(b + p * row, n);
    for (int64_t i = 0; i < m; ++i) {
      float* const sum = sums + i * lanes;
      hn::Store(hn::MulAdd(hn::Set(Tag(), a[i * k + p]), right, hn::Load(Tag(), sum)), Tag(), sum);
    }
  }
  for (int64_t i = 0; i < m; ++i) std::copy_n(sums + i * lanes, n, c + i * stride);
}

/// b's rows are dense.
template <class T, int rows>
HWY_INLINE void product_of_rows(int64_t n, int64_t k, const float* a, const T* b, int64_t row, float* c,
                                int64_t stride) {
  const int64_t whole = n / lanes * lanes;
  int64_t p = 0;
  for (; p + depth <= k; p += depth) add_rows<T, rows, depth>(whole, a + p, k, b + p * row, row, p == 0, c, stride);
  for (; p < k; ++p) add_rows<T, rows, 1>(whole, a + p, k, b + p * row, row, p == 0, c, stride);
  if (whole < n) add_last_columns(rows, n - whole, k, a, b + whole, row, c + whole, stride);
}

/// The products of k elements, whole vectors, are added to the sums [rows, columns].
template <class T, int rows, int columns>
HWY_NOINLINE void add_dots(int64_t k, const float* a, int64_t row, const T* b, int64_t column, Vec* sums) {
  Vec sum[rows][columns];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) sum[i][j] = sums[i * columns + j];
  }
  for (int64_t p = 0; p < k; p += lanes) {
    Vec right[columns];
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) {
      right[j] = widened(b + j * column + p);
      // The lines are short for the processor's own foresight.
      __builtin_prefetch(b + (j + columns) * column + p, 0, 2);
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const Vec factor = widened(a + i * row + p);
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) sum[i][j] = hn::MulAdd(factor, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) sums[i * columns + j] = sum[i][j];
  }
}

/// One vector of each of `count` lines, padded with zeros behind its n elements.
template <class T>
void pad_lines(int64_t count, int64_t n, const T* from, int64_t stride, T* to) {
  std::memset(static_cast<void*>(to), 0, static_cast<size_t>(count * lanes) * sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(static_cast<void*>(to + i * lanes), from + i * stride, static_cast<size_t>(n) * sizeof(T));
  }
}

/// c's elements of `columns` columns of b, which are dense.
template <class T, int rows, int columns>
HWY_INLINE void dots(int64_t k, const float* a, const T* b, int64_t column, float* c, int64_t stride) {
  Vec sums[rows * columns];
  for (Vec& sum : sums) sum = hn::Zero(Tag());
  const int64_t whole = k / lanes * lanes;
  add_dots<T, rows, columns>(whole, a, k, b, column, sums);
  if (whole < k) {
    alignas(64) float last_a[rows * lanes];
    alignas(64) T last_b[columns * lanes];
    pad_lines(rows, k - whole, a + whole, k, last_a);
    pad_lines(columns, k - whole, b + whole, column, last_b);
    add_dots<T, rows, columns>(lanes, last_a, lanes, last_b, lanes, sums);
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) c[i * stride + j] = hn::GetLane(hn::SumOfLanes(Tag(), sums[i * columns + j]));
  }
}

template <class T, int rows>
HWY_INLINE void product_of_columns(int64_t n, int64_t k, const float* a, const T* b, int64_t column, float* c,
                                   int64_t stride) {
  constexpr int together = rows <= 4 ? 4 : 2;
  int64_t j = 0;
  for (; j + together <= n; j += together) dots<T, rows, together>(k, a, b + j * column, column, c + j, stride);
  for (; j < n; ++j) dots<T, rows, 1>(k, a, b + j * column, column, c + j, stride);
}

template <class T>
void product(int64_t m, int64_t n, int64_t k, const float* a, const T* b, int64_t row, int64_t column, float* c,
             int64_t stride) {
  with_count<static_cast<int>(skinny_rows)>(m, [&](auto rows) HWY_ATTR {
    if (column == 1) product_of_rows<T, rows>(n, k, a, b, row, c, stride);
    else product_of_columns<T, rows>(n, k, a, b, column, c, stride);
  });
}

void any_product(int64_t m, int64_t n, int64_t k, const float* a, const WideMatrix& b, float* c, int64_t stride) {
  const auto of = [&]<class T>(const T*)
                      HWY_ATTR { product(m, n, k, a, static_cast<const T*>(b.data), b.row, b.column, c, stride); };
  if (b.dtype == DType::f16) of(static_cast<const hwy::float16_t*>(nullptr));
  else if (b.dtype == DType::bf16) of(static_cast<const hwy::bfloat16_t*>(nullptr));
  else of(static_cast<const float*>(nullptr));
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(any_product);

void skinny_product(int64_t m, int64_t n, int64_t k, const float* a, const WideMatrix& b, float* c, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(any_product)(m, n, k, a, b, c, stride);
}

}  // namespace weft::cpu
#endif
