// A few rows by weights of 8 or 4 bits in integers, for CPUs that multiply bytes (AVX512_VNNI). Numbers of x are whole
// multiples of 2^-15 of the largest of their group, in two bytes each; sums of a group are exact, and scaled.
#include "quantized_rows.hpp"
#include "../read_ahead.hpp"

#if defined(__x86_64__)
#include "../intrinsics.hpp"

#include <hwy/base.h>

#include <algorithm>
#include <bit>
#include <numeric>

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
namespace weft::cpu {
namespace {

/// Bytes that are read at once, and sums that they are added to.
constexpr int64_t step = 64, lanes = 16;

HWY_INLINE __m512i load(const void* from) { return _mm512_loadu_si512(from); }

/// The offset that makes codes unsigned as they are read, and the offset of 4-bit codes without a zero.
HWY_INLINE int centre_of(const QuantizedRows& w) {
  if (w.bits == 8) return w.is_signed ? 128 : 0;
  return w.zero == nullptr ? 8 : 0;
}

/// 64 codes as numbers without sign; of the last ones of a group `left`, and zeros.
HWY_INLINE __m512i codes_at(const uint8_t* codes, bool is_signed) {
  return is_signed ? _mm512_sub_epi8(load(codes), _mm512_set1_epi8(-128)) : load(codes);
}
HWY_INLINE __m512i last_codes_at(const uint8_t* codes, int64_t left, bool is_signed) {
  const __mmask64 there = (__mmask64{1} << left) - 1;
  const __m512i read = _mm512_maskz_loadu_epi8(there, codes);
  return is_signed ? _mm512_maskz_sub_epi8(there, read, _mm512_set1_epi8(-128)) : read;
}

/// The contributions of both bytes of x to the sum of one group.
struct Sum {
  __m512i high, low;
  HWY_INLINE void start(const int32_t* at) { high = _mm512_setzero_si512(), low = load(at); }
  HWY_INLINE void add(__m512i codes, const int8_t* x_high, const int8_t* x_low) {
    high = _mm512_dpbusd_epi32(high, codes, load(x_high));
    low = _mm512_dpbusd_epi32(low, codes, load(x_low));
  }
  HWY_INLINE __m512i whole() const { return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low); }
  HWY_INLINE __m512 value() const { return _mm512_cvtepi32_ps(whole()); }
};

/// `count` rows of x by 64 codes, or 128 of 4 bits; their planes are `apart` bytes apart.
template <int count, int bits>
HWY_INLINE void add_codes(Sum* sum, __m512i codes, const int8_t* x, int64_t row, int64_t apart) {
  const __m512i half = _mm512_set1_epi8(15), even = bits == 8 ? codes : _mm512_and_si512(codes, half);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(codes, 4), half);
#pragma GCC unroll 4
  for (int m = 0; m < count; ++m, x += row) {
    sum[m].add(even, x, x + apart);
    if (bits == 4) sum[m].add(odd, x + 2 * apart, x + 3 * apart);
  }
}

/// Scales and zeros are taken for so many groups at once.
constexpr int64_t groups_at_once = 16;

/// Up to 16 groups of a row of the weight by one of x: the factors of their sums, and the terms of their zeros.
HWY_INLINE __m512 factors_of(const QuantizedRows& w, int64_t row, const IntegerInputs& x, int64_t m, int64_t g,
                             float* factors) {
  const int64_t groups = w.groups(), of_w = row * groups + g, of_x = m * groups + g;
  const auto there = static_cast<__mmask16>((1u << std::min(groups_at_once, groups - g)) - 1);
  const __m512 scale = _mm512_maskz_loadu_ps(there, w.scale + of_w);
  _mm512_store_ps(factors, _mm512_mul_ps(scale, _mm512_maskz_loadu_ps(there, x.scales + of_x)));
  if (w.zero == nullptr) return _mm512_setzero_ps();
  return _mm512_mul_ps(_mm512_maskz_loadu_ps(there, w.zero + of_w), _mm512_maskz_loadu_ps(there, x.sums + of_x));
}

/// `rows` rows of the weight by `count` rows of x. Operands are prefetched in memory order.
template <int rows, int count, int bits>
HWY_INLINE void multiply_rows(const QuantizedRows& w, int64_t row, const IntegerInputs& x, __m512 (*out)[count]) {
  const int64_t groups = w.groups(), of_group = bits == 8 ? w.group : (w.group + 1) / 2;
  const bool is_signed = bits == 8 && w.is_signed;
  const uint8_t *codes = w.row(row), *next = codes + read_ahead;
  const int8_t* from = x.planes;
  int64_t left_of_row = bits == 8 ? w.columns : w.half();
  alignas(64) float factors[rows][count][groups_at_once];
  __m512 total[rows][count];
  for (int64_t g = 0; g < groups; ++g, left_of_row -= of_group) {
    if (g % groups_at_once == 0) {
      for (int r = 0; r < rows; ++r) {
        for (int m = 0; m < count; ++m) {
          const __m512 added = factors_of(w, row + r, x, m, g, factors[r][m]);
          total[r][m] = g == 0 ? added : _mm512_add_ps(total[r][m], added);
        }
      }
    }
    Sum sum[rows][count];
#pragma GCC unroll 4
    for (int m = 0; m < count; ++m) {
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) sum[r][m].start(x.starts + (m * groups + g) * lanes);
    }
    for (int64_t left = std::min(of_group, left_of_row); left > 0; left -= step) {
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r, next += step) {
        const uint8_t* const at = codes + r * w.stride;
        const __m512i read = left >= step ? codes_at(at, is_signed) : last_codes_at(at, left, is_signed);
        prefetch(next, step);
        add_codes<count, bits>(sum[r], read, from, x.row, x.plane_size);
      }
      codes += std::min(step, left), from += std::min(step, left);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int m = 0; m < count; ++m) {
        const __m512 factor = _mm512_set1_ps(factors[r][m][g % groups_at_once]);
        total[r][m] = _mm512_fmadd_ps(sum[r][m].value(), factor, total[r][m]);
      }
    }
  }
  for (int r = 0; r < rows; ++r) std::copy_n(total[r], count, out[r]);
}

/// The sums of all lanes of four.
HWY_INLINE __m128 sums_of(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512 low = _mm512_shuffle_ps(ab, cd, 0x44), high = _mm512_shuffle_ps(ab, cd, 0xEE);
  const __m512 lanes = _mm512_add_ps(low, high),
               halves = _mm512_add_ps(lanes, _mm512_shuffle_f32x4(lanes, lanes, 0x4E));
  return _mm512_castps512_ps128(_mm512_add_ps(halves, _mm512_shuffle_f32x4(halves, halves, 0xB1)));
}

/// As many rows of the weight at once as registers hold.
template <int count, int bits>
void multiply(const QuantizedRows& w, int64_t row, const IntegerInputs& x, float* out, int64_t out_row) {
  constexpr int rows = 4 / count;
  __m512 total[4][count];
  for (int r = 0; r < 4; r += rows) multiply_rows<rows, count, bits>(w, row + r, x, total + r);
  for (int m = 0; m < count; ++m) {
    _mm_storeu_ps(out + m * out_row, sums_of(total[0][m], total[1][m], total[2][m], total[3][m]));
  }
}

template <int bits>
void multiply_any(const QuantizedRows& w, int64_t row, int64_t m, const IntegerInputs& x, float* out, int64_t out_row) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) multiply<4, bits>(w, row, x.from(i, w), out + i * out_row, out_row);
  for (; i + 2 <= m; i += 2) multiply<2, bits>(w, row, x.from(i, w), out + i * out_row, out_row);
  if (i < m) multiply<1, bits>(w, row, x.from(i, w), out + i * out_row, out_row);
}

/// The contribution of a group of codes for 0 to the sums.
__m512i centre_sums(const QuantizedRows& w, int64_t n, const int8_t* x, int64_t apart) {
  const auto centre = static_cast<char>(centre_of(w));
  Sum sum = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  for (int64_t left = w.bits == 8 ? n : (n + 1) / 2; left > 0; left -= step, x += step) {
    const __mmask64 there = left >= step ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    const __m512i codes = _mm512_maskz_set1_epi8(there, centre);
    sum.add(codes, x, x + apart);
    if (w.bits == 4) sum.add(codes, x + 2 * apart, x + 3 * apart);
  }
  return sum.whole();
}

}  // namespace

WholeNumbers to_whole_numbers(const QuantizedRows& w, const float* x, int64_t n, int8_t* to, int64_t apart,
                              int32_t* starts) {
  const bool in_pairs = w.bits == 4;
  const auto some = [&](int64_t j) {
    return _mm512_maskz_loadu_ps(n - j >= 16 ? 0xFFFF : static_cast<__mmask16>((1 << (n - j)) - 1), x + j);
  };
  __m512i most = _mm512_setzero_si512();
  for (int64_t j = 0; j < n; j += 16) {
    most = _mm512_max_epi32(most, _mm512_and_si512(_mm512_castps_si512(some(j)), _mm512_set1_epi32(0x7FFFFFFF)));
  }
  alignas(64) int32_t bits[16], sums[16];
  _mm512_store_si512(bits, most);
  const int32_t largest = *std::max_element(bits, bits + 16);
  if (largest >= 0x7F800000) return {};
  constexpr float whole = 127 * 256 + 127;
  const float scale = std::max(std::bit_cast<float>(largest), whole * 0x1p-120f) / whole;
  const __m512 by = _mm512_set1_ps(1 / scale);
  __m512i sum = _mm512_setzero_si512();
  // The even bytes before the odd ones.
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  const auto put = [&](__m512i numbers, int8_t* at) {
    const __m128i bytes = _mm512_cvtepi32_epi8(numbers);
    if (!in_pairs) return _mm_storeu_si128(reinterpret_cast<__m128i*>(at), bytes);
    const __m128i parted = _mm_shuffle_epi8(bytes, order);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at), parted);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at + 2 * apart), _mm_unpackhi_epi64(parted, parted));
  };
  for (int64_t j = 0; j < n; j += 16) {
    const __m512i number = _mm512_cvtps_epi32(_mm512_mul_ps(some(j), by));
    const __m512i low = _mm512_srai_epi32(_mm512_slli_epi32(number, 24), 24);
    const __m512i high = _mm512_srai_epi32(_mm512_sub_epi32(number, low), 8);
    int8_t* const at = to + (in_pairs ? j / 2 : j);
    put(high, at);
    put(low, at + apart);
    sum = _mm512_add_epi32(sum, number);
  }
  _mm512_store_si512(sums, sum);
  _mm512_storeu_si512(starts, _mm512_sub_epi32(_mm512_setzero_si512(), centre_sums(w, n, to, apart)));
  return {scale, scale * static_cast<float>(std::accumulate(sums, sums + 16, 0))};
}

bool takes_integers(const QuantizedRows& w) {
  static const bool present = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
                              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return present && w.group >= 32 && w.group <= 256;
}

void multiply_integers(const QuantizedRows& w, int64_t row, int64_t m, const IntegerInputs& x, float* out,
                       int64_t out_row) {
  if (w.bits == 4) multiply_any<4>(w, row, m, x, out, out_row);
  else multiply_any<8>(w, row, m, x, out, out_row);
}

}  // namespace weft::cpu
HWY_POP_ATTRIBUTES
#else
namespace weft::cpu {

WholeNumbers to_whole_numbers(const QuantizedRows&, const float*, int64_t, int8_t*, int64_t, int32_t*) { return {}; }
bool takes_integers(const QuantizedRows&) { return false; }
void multiply_integers(const QuantizedRows&, int64_t, int64_t, const IntegerInputs&, float*, int64_t) {}

}  // namespace weft::cpu
#endif
