#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/index/index_loops.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include "index_loops.hpp"
#include "indices.hpp"
#include "../../../tensor/dtype.hpp"
#include "../item.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class I, bool more>
void contiguous_offsets(int64_t* HWY_RESTRICT offset, const I* HWY_RESTRICT index, int64_t n, int64_t size,
                        int64_t stride) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t given = index[i], wrapped = given + (given >> 63 & size);
    offset[i] = more ? offset[i] + wrapped * stride : wrapped * stride;
  }
}

template <class I>
void offsets_of(int64_t* offset, const char* index, int64_t step, int64_t n, int64_t size, int64_t stride, bool more) {
  if (step == (int64_t)sizeof(I)) {
    auto* const given = reinterpret_cast<const I*>(index);
    if (more) contiguous_offsets<I, true>(offset, given, n, size, stride);
    else contiguous_offsets<I, false>(offset, given, n, size, stride);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t row = index_at<I>(index, i * step);
    wraps_into(row, size, true);
    offset[i] = more ? offset[i] + row * stride : row * stride;
  }
}

void any_offsets(int64_t* offset, const char* index, DType type, int64_t step, int64_t n, int64_t size, int64_t stride,
                 bool more) {
  if (type == DType::i64) offsets_of<int64_t>(offset, index, step, n, size, stride, more);
  else offsets_of<int32_t>(offset, index, step, n, size, stride, more);
}

template <class I>
bool in_range(const char* index, int64_t step, int64_t n, int64_t size, bool wraps) {
  const uint64_t extent = static_cast<uint64_t>(size), below = wraps ? extent : 0;
  uint64_t outside = 0;
  if (step == (int64_t)sizeof(I)) {
    auto* const given = reinterpret_cast<const I*>(index);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = given[i];
      // Neither at + below nor size - 1 - at is negative; where one wraps around, the other is.
      outside |= (static_cast<uint64_t>(at) + below) | (extent - 1 - static_cast<uint64_t>(at));
    }
    return (outside >> 63) == 0;
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t row = index_at<I>(index, i * step);
    if (!wraps_into(row, size, wraps)) return false;
  }
  return true;
}

bool any_in_range(const char* index, DType type, int64_t step, int64_t n, int64_t size, bool wraps) {
  if (type == DType::i64) return in_range<int64_t>(index, step, n, size, wraps);
  return in_range<int32_t>(index, step, n, size, wraps);
}

// ---- gather ---------------------------------------------------------------------------------------------------------

template <class Word, class I>
bool gather_one_by_one(const GatherLine& line, int64_t first) {
  const int64_t size = line.size, stride = line.x_stride;
  const bool wraps = line.wraps;
  const int64_t out_step = line.out_step, x_step = line.x_step, index_step = line.index_step;
  char* out = line.out + first * out_step;
  const char *x = line.x + first * x_step, *index = line.index + first * index_step;
  for (int64_t left = line.n - first; left > 0; --left) {
    int64_t row = index_at<I>(index, 0);
    if (!wraps_into(row, size, wraps)) return false;
    *reinterpret_cast<Word*>(out) = *reinterpret_cast<const Word*>(x + row * stride);
    out += out_step;
    x += x_step;
    index += index_step;
  }
  return true;
}

#if HWY_TARGET == HWY_AVX3
template <class I>
HWY_INLINE __m512i load_indices(const char* index) {
  if constexpr (sizeof(I) == 8) return _mm512_loadu_si512(index);
  else return _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(index)));
}
#endif

template <class Word, class I>
bool gather_line(const GatherLine& line) {
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX3
  constexpr int64_t item = sizeof(Word);
  if ((item == 4 || item == 8) && line.out_step == item && line.index_step == (int64_t)sizeof(I)) {
    const __m512i size = _mm512_set1_epi64(line.size), stride = _mm512_set1_epi64(line.x_stride);
    const __m512i below = line.wraps ? size : _mm512_setzero_si512();
    const __m512i zero = _mm512_setzero_si512(), step = _mm512_set1_epi64(8 * line.x_step);
    __m512i along = _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(line.x_step));
    for (; i + 8 <= line.n; i += 8) {
      __m512i row = load_indices<I>(line.index + i * (int64_t)sizeof(I));
      row = _mm512_mask_add_epi64(row, _mm512_cmplt_epi64_mask(row, zero), row, below);
      const __mmask8 valid = _mm512_cmplt_epu64_mask(row, size);
      if (valid != 0xff) return false;
      const __m512i offset = _mm512_add_epi64(_mm512_mullo_epi64(row, stride), along);
      along = _mm512_add_epi64(along, step);
      if constexpr (item == 4) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(line.out + i * item), _mm512_i64gather_epi32(offset, line.x, 1));
      } else if constexpr (item == 8) {
        _mm512_storeu_si512(line.out + i * item, _mm512_i64gather_epi64(offset, line.x, 1));
      }
    }
  }
#endif
  return gather_one_by_one<Word, I>(line, i);
}

template <class Word>
GatherLoop gather_of(DType index) {
  return index == DType::i64 ? gather_line<Word, int64_t> : gather_line<Word, int32_t>;
}
GatherLoop chosen_gather(int64_t item, DType index) {
  switch (item) {
    case 1:
      return gather_of<uint8_t>(index);
    case 2:
      return gather_of<uint16_t>(index);
    case 4:
      return gather_of<uint32_t>(index);
    case 8:
      return gather_of<uint64_t>(index);
    default:
      return gather_of<complex128>(index);
  }
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <atomic>

#include "../thread_pool.hpp"

namespace weft::cpu {

HWY_EXPORT(any_offsets);
void index_offsets(int64_t* offset, const char* index, DType type, int64_t step, int64_t n, int64_t size,
                   int64_t stride, bool more) {
  HWY_DYNAMIC_DISPATCH(any_offsets)(offset, index, type, step, n, size, stride, more);
}

HWY_EXPORT(any_in_range);
bool all_in_range(const char* index, DType type, int64_t step, int64_t n, int64_t size, bool wraps) {
  return HWY_DYNAMIC_DISPATCH(any_in_range)(index, type, step, n, size, wraps);
}

namespace {
template <class I>
bool few_offsets(int64_t* offset, const char* index, int64_t step, int64_t n, int64_t size, int64_t stride,
                 bool wraps) {
  for (int64_t i = 0; i < n; ++i, index += step) {
    int64_t row = index_at<I>(index, 0);
    if (!wraps_into(row, size, wraps)) return false;
    offset[i] = row * stride;
  }
  return true;
}
}  // namespace

bool checked_offsets(int64_t* offset, const char* index, DType type, int64_t step, int64_t n, int64_t size,
                     int64_t stride, bool wraps) {
  constexpr int64_t few = 16;  // for which finding a loop costs more than it gains
  if (n > few) {
    if (!all_in_range(index, type, step, n, size, wraps)) return false;
    index_offsets(offset, index, type, step, n, size, stride, false);
    return true;
  }
  if (type == DType::i64) return few_offsets<int64_t>(offset, index, step, n, size, stride, wraps);
  return few_offsets<int32_t>(offset, index, step, n, size, stride, wraps);
}

HWY_EXPORT(chosen_gather);
GatherLoop gather_loop(DType element, DType index) {
  return HWY_DYNAMIC_DISPATCH(chosen_gather)(itemsize(element), index);
}

bool gather_list(const GatherLine& line, DType element, DType index) {
  constexpr int64_t chunk = 32768;
  const GatherLoop loop = gather_loop(element, index);
  if (line.n <= chunk) return loop(line);
  std::atomic<bool> valid = true;
  parallel_for(line.n, chunk, [&](int64_t begin, int64_t end) {
    GatherLine part = line;
    part.out += begin * part.out_step;
    part.x += begin * part.x_step;
    part.index += begin * part.index_step;
    part.n = end - begin;
    if (!loop(part)) valid.store(false, std::memory_order_relaxed);
  });
  return valid.load(std::memory_order_relaxed);
}

}  // namespace weft::cpu
#endif
