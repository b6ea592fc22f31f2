// A few rows of bfloat16 by weights of 4 bits, for CPUs whose vector units multiply pairs of them (AVX512_BF16). Codes
// are looked up in a table of 16 numbers, which bfloat16 holds exactly; a group's sum is scaled.
#include "quantized_rows.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <hwy/base.h>

#include <algorithm>
#include <cstring>

#include "../../../tensor/number.hpp"
#include "../matmul/gemm.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
namespace weft::cpu {
namespace {

/// Bytes that are read at once.
constexpr int64_t step = 32;

/// What codes stand for, each entry twice: what is looked up has a fifth bit of its neighbour's.
HWY_INLINE __m512i table_of(const QuantizedRows& w) {
  const int centre = w.zero == nullptr ? 8 : 0;
  alignas(64) uint16_t bits[32];
  for (int i = 0; i < 32; ++i) bits[i] = to_bfloat16(static_cast<float>(i % 16 - centre)).bits;
  return _mm512_load_si512(bits);
}

HWY_INLINE __m512bh looked_up(__m512i table, __m512i index) {
  return reinterpret_cast<__m512bh>(_mm512_permutexvar_epi16(index, table));
}

HWY_INLINE float sum_of(__m512 v) {
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, v);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

/// `rows` rows of the weight from `row` on by `count` rows of x.
template <int count, int rows>
void multiply(const QuantizedRows& w, int64_t row, const PairInputs& x, __m512i table, float* out, int64_t out_row) {
  const int64_t groups = w.groups(), bytes = w.half(), of_group = w.group / 2;
  __m512 total[count][rows];
  float shifts[count][rows] = {};
  for (auto& line : total) {
    for (__m512& v : line) v = _mm512_setzero_ps();
  }
  for (int64_t g = 0; g < groups; ++g) {
    __m512 sum[count][rows];
#pragma GCC unroll 4
    for (int m = 0; m < count; ++m) {
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) sum[m][r] = _mm512_setzero_ps();
    }
    const int64_t end = std::min(bytes, (g + 1) * of_group);
    for (int64_t j = g * of_group; j < end; j += step) {
      __m512bh low[rows], high[rows];
      const int64_t left = bytes - j;
      const __mmask32 there = left >= step ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        // A row is hardly longer than a page, at whose start hardware does not look ahead.
        if (count == 1) _mm_prefetch(reinterpret_cast<const char*>(w.row(row + rows + r) + j), _MM_HINT_T0);
        const __m256i codes = _mm256_maskz_loadu_epi8(there, w.row(row + r) + j);
        const __m512i wide = _mm512_cvtepu8_epi16(codes);
        low[r] = looked_up(table, wide);
        high[r] = looked_up(table, _mm512_srli_epi16(wide, 4));
      }
#pragma GCC unroll 4
      for (int m = 0; m < count; ++m) {
        const auto first = reinterpret_cast<__m512bh>(_mm512_loadu_si512(x.low + m * x.row + j));
        const auto second = reinterpret_cast<__m512bh>(_mm512_loadu_si512(x.high + m * x.row + j));
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
          sum[m][r] = _mm512_dpbf16_ps(sum[m][r], first, low[r]);
          sum[m][r] = _mm512_dpbf16_ps(sum[m][r], second, high[r]);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const __m512 scale = _mm512_set1_ps(w.scale_at(row + r, g));
#pragma GCC unroll 4
      for (int m = 0; m < count; ++m) {
        total[m][r] = _mm512_fmadd_ps(sum[m][r], scale, total[m][r]);
        if (w.zero != nullptr) shifts[m][r] += w.zero[(row + r) * groups + g] * x.sums[m * groups + g];
      }
    }
  }
  for (int m = 0; m < count; ++m) {
    for (int r = 0; r < rows; ++r) out[m * out_row + r] = sum_of(total[m][r]) + shifts[m][r];
  }
}

PairInputs from_row(const PairInputs& x, const QuantizedRows& w, int64_t i) {
  return {x.low + i * x.row, x.high + i * x.row, x.row, x.sums + i * w.groups()};
}

}  // namespace

bool takes_pairs(const QuantizedRows& w) { return has_pair_products() && w.bits == 4 && w.group % (2 * step) == 0; }

void multiply_pairs(const QuantizedRows& w, int64_t row, int64_t m, const PairInputs& x, float* out, int64_t out_row) {
  const __m512i table = table_of(w);
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) {
    const PairInputs in = from_row(x, w, i);
    multiply<4, 2>(w, row, in, table, out + i * out_row, out_row);
    multiply<4, 2>(w, row + 2, in, table, out + i * out_row + 2, out_row);
  }
  for (; i + 2 <= m; i += 2) multiply<2, 4>(w, row, from_row(x, w, i), table, out + i * out_row, out_row);
  for (; i < m; ++i) multiply<1, 4>(w, row, from_row(x, w, i), table, out + i * out_row, out_row);
}

}  // namespace weft::cpu
HWY_POP_ATTRIBUTES
#else
namespace weft::cpu {

bool takes_pairs(const QuantizedRows&) { return false; }
void multiply_pairs(const QuantizedRows&, int64_t, int64_t, const PairInputs&, float*, int64_t) {}

}  // namespace weft::cpu
#endif
