// Products of bfloat16 for CPUs whose vector units multiply pairs of them (AVX512_BF16): two rows of b are interleaved.
#include "gemm.hpp"
#include "../workspace.hpp"

#if defined(__x86_64__)
#include "../intrinsics.hpp"

#include <hwy/base.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "../pointwise/loops.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
namespace weft::cpu {
namespace {

constexpr int64_t lanes = 16, panel_width = 2 * lanes;
constexpr int block_rows = 12;
/// How many rows of a, columns of b and numbers of each are packed at once.
constexpr int64_t panel_rows = 96, panel_columns = 1024, panel_depth = 2048;

/// Rows of a: the pair (2p, 2p + 1) of row i is at data + i * row + p * pair.
struct Left {
  const uint16_t* data;
  int64_t row, pair;
};

/// Where a block of at most two vectors of columns ends up: sums in f32, or rounded with the bias added.
struct Result {
  float* sums;
  int64_t sums_row;
  bool adds;    ///< to what `sums` holds
  uint16_t* c;  ///< null where more is to come, and for a result in f32
  int64_t c_row;
  const uint16_t* bias;  ///< one row, or null
  int64_t columns;
  /// Null, or scales of each row and column.
  const float *row_scale = nullptr, *column_scale = nullptr;

  Result from(int64_t i, int64_t j) const {
    Result r = *this;
    if (sums != nullptr) r.sums += i * sums_row + j;
    if (c != nullptr) r.c += i * c_row + j;
    if (bias != nullptr) r.bias += j;
    if (row_scale != nullptr) r.row_scale += i, r.column_scale += j;
    return r;
  }
};

HWY_INLINE uint32_t pair_at(const uint16_t* from) {
  uint32_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  return pair;
}

HWY_INLINE __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= lanes ? 0xffff : (1 << std::max<int64_t>(count, 0)) - 1);
}

/// sum[i] += the products of row i's pair, or of its last number alone, with one line of a panel.
template <int rows, bool single>
HWY_INLINE void add_pair(__m512 (&sum)[rows][2], const Left& a, const uint16_t* from, const uint32_t* line) {
  const auto first = reinterpret_cast<__m512bh>(_mm512_loadu_si512(line));
  const auto second = reinterpret_cast<__m512bh>(_mm512_loadu_si512(line + lanes));
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    const uint16_t* at = from + i * a.row;
    const auto left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(single ? *at : pair_at(at))));
    sum[i][0] = _mm512_dpbf16_ps(sum[i][0], left, first);
    sum[i][1] = _mm512_dpbf16_ps(sum[i][1], left, second);
  }
}

HWY_INLINE __m512 widened(const uint16_t* from, __mmask16 mask) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16));
}

template <int rows>
HWY_INLINE void finish(__m512 (&sum)[rows][2], const Result& to) {
  const __mmask16 masks[2] = {first_lanes(to.columns), first_lanes(to.columns - lanes)};
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      float* sums = to.sums != nullptr ? to.sums + i * to.sums_row + j * lanes : nullptr;
      if (to.row_scale != nullptr) {  // one after the other: their product may overflow
        const __m512 columns = _mm512_maskz_loadu_ps(masks[j], to.column_scale + j * lanes);
        sum[i][j] = _mm512_mul_ps(_mm512_mul_ps(sum[i][j], _mm512_set1_ps(to.row_scale[i])), columns);
      }
      if (to.adds) sum[i][j] = _mm512_add_ps(sum[i][j], _mm512_maskz_loadu_ps(masks[j], sums));
      if (to.c == nullptr) {
        _mm512_mask_storeu_ps(sums, masks[j], sum[i][j]);
        continue;
      }
      if (to.bias != nullptr) sum[i][j] = _mm512_add_ps(sum[i][j], widened(to.bias + j * lanes, masks[j]));
      const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum[i][j]));
      _mm256_mask_storeu_epi16(to.c + i * to.c_row + j * lanes, masks[j], rounded);
    }
  }
}

/// Every row of a by one panel. `single`: a number follows the last pair of each row.
void panel_product(int64_t m, int64_t pairs, bool single, Left a, const uint32_t* panel, Result to) {
#define WEFT_BLOCK(rows)                                                        \
  for (; m >= rows; m -= rows, a.data += rows * a.row, to = to.from(rows, 0)) { \
    __m512 sum[rows][2] = {};                                                   \
    const uint16_t* from = a.data;                                              \
    const uint32_t* line = panel;                                               \
    for (int64_t p = 0; p < pairs; ++p, from += a.pair, line += panel_width) {  \
      add_pair<rows, false>(sum, a, from, line);                                \
    }                                                                           \
    if (single) add_pair<rows, true>(sum, a, from, line);                       \
    finish<rows>(sum, to);                                                      \
  }
  WEFT_BLOCK(block_rows)
  WEFT_BLOCK(4)
  WEFT_BLOCK(1)
#undef WEFT_BLOCK
}

/// Interleaves two rows as pairs; a null second row counts as zeros.
void interleave(int64_t count, const uint16_t* first, const uint16_t* second, uint32_t* to) {
  for (int64_t j = 0; j < count; j += lanes) {
    const __mmask16 mask = first_lanes(count - j);
    __m512i pairs = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, first + j));
    if (second != nullptr) {
      const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, second + j));
      pairs = _mm512_or_si512(pairs, _mm512_slli_epi32(high, 16));
    }
    _mm512_mask_storeu_epi32(to + j, mask, pairs);
  }
}
/// The same for the columns of one panel.
HWY_INLINE void interleave_panel(const uint16_t* first, const uint16_t* second, uint32_t* to) {
  alignas(64) static constexpr uint16_t order[] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                   8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_load_si512(order), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  const __m512i x = _mm512_loadu_si512(first), y = _mm512_loadu_si512(second);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(x, low, y));
  _mm512_storeu_si512(to + lanes, _mm512_permutex2var_epi16(x, high, y));
}

/// b[k, n] with contiguous columns, as lines of pairs `stride` apart, zero-padded if k is odd.
void transpose_pairs(int64_t k, int64_t n, Matrix<uint16_t> b, uint32_t* to, int64_t stride) {
  const int64_t pairs = k / 2;
  if (reinterpret_cast<uintptr_t>(b.data) % 4 == 0 && b.column % 2 == 0) {
    convert_loops.transpose[2](reinterpret_cast<char*>(to), stride * 4, reinterpret_cast<const char*>(b.data),
                               b.column * 2, pairs, n);
  } else {
    for (int64_t p = 0; p < pairs; ++p) {
      for (int64_t j = 0; j < n; ++j) to[p * stride + j] = pair_at(b.data + j * b.column + 2 * p);
    }
  }
  if (k % 2 == 0) return;
  for (int64_t j = 0; j < n; ++j) to[pairs * stride + j] = b.data[j * b.column + k - 1];
}

/// b[k, n] in panels. Rows are read from end to end, since caches foresee that.
void pack_right(int64_t k, int64_t n, Matrix<uint16_t> b, uint32_t* to) {
  const int64_t lines = (k + 1) / 2, panel = lines * panel_width, whole = n / panel_width * panel_width;
  if (whole < n) std::fill_n(to + whole * lines, panel, 0u);
  if (b.column != 1) {
    for (int64_t j = 0; j < n; j += panel_width) {
      transpose_pairs(k, std::min(panel_width, n - j), b.from(0, j), to + j * lines, panel_width);
    }
    return;
  }
  for (int64_t p = 0; p < k; p += 2, to += panel_width) {
    const uint16_t* first = b.data + p * b.row;
    const uint16_t* second = p + 1 < k ? first + b.row : nullptr;
    int64_t j = 0;
    if (second != nullptr) {
      for (; j < whole; j += panel_width) interleave_panel(first + j, second + j, to + j * lines);
    }
    for (; j < n; j += panel_width) {
      interleave(std::min(panel_width, n - j), first + j, second != nullptr ? second + j : nullptr, to + j * lines);
    }
  }
}

void pack_left(int64_t m, int64_t k, Matrix<uint16_t> a, uint32_t* to) {
  const int64_t lines = (k + 1) / 2;
  for (int64_t i = 0; i < m; i += block_rows) {
    const int64_t count = std::min<int64_t>(block_rows, m - i);
    const Matrix<uint16_t> columns = a.from(i, 0).transposed();
    if (a.column == 1) {
      transpose_pairs(k, count, columns, to + i * lines, count);
      continue;
    }
    for (int64_t p = 0; p < k; p += 2) {
      const uint16_t* line = columns.data + p * columns.row;
      interleave(count, line, p + 1 < k ? line + columns.row : nullptr, to + i * lines + p / 2 * count);
    }
  }
}

/// Whether the blocks may read a in place: rows a large power of two apart evict each other from the cache.
bool reads_in_place(const Matrix<uint16_t>& a) { return a.column == 1 && a.row % 2048 != 0; }

}  // namespace

namespace {

template <class T>
void product_of_pairs(int64_t m, int64_t n, int64_t k, Matrix<uint16_t> a, Matrix<uint16_t> b, const T* bias, T* c,
                      int64_t stride) {
  constexpr bool rounds = std::is_same_v<T, uint16_t>;
  const bool packs_left = !reads_in_place(a), keeps_sums = rounds && k > panel_depth;
  const int64_t lines = (std::min(k, panel_depth) + 1) / 2, columns = std::min(n, panel_columns);
  const int64_t right_size = lines * ((columns + panel_width - 1) / panel_width * panel_width);
  const int64_t left_size = packs_left ? lines * std::min(m, panel_rows) : 0, sums_size = keeps_sums ? m * columns : 0;
  const Workspace memory(static_cast<size_t>(right_size + left_size + sums_size) * 4);
  uint32_t *right = memory.as<uint32_t>(), *left = right + right_size;
  float* sums = reinterpret_cast<float*>(left + left_size);
  for (int64_t j = 0; j < n; j += panel_columns) {
    const int64_t nj = std::min(panel_columns, n - j);
    for (int64_t p = 0; p < k; p += panel_depth) {
      const int64_t kp = std::min(panel_depth, k - p), depth = (kp + 1) / 2;
      const bool last = p + kp == k;
      Result whole{keeps_sums ? sums : nullptr, columns, p > 0, nullptr, stride, nullptr, 0};
      if constexpr (rounds) {
        if (last) whole.c = c + j;
        if (bias != nullptr) whole.bias = bias + j;
      } else {
        whole.sums = c + j, whole.sums_row = stride, whole.adds = p > 0 || bias != nullptr;
        for (int64_t i = 0; i < m && p == 0 && bias != nullptr; ++i) std::copy_n(bias + j, nj, c + i * stride + j);
      }
      pack_right(kp, nj, b.from(p, j), right);
      for (int64_t i = 0; i < m; i += panel_rows) {
        const int64_t mi = std::min(panel_rows, m - i);
        if (packs_left) pack_left(mi, kp, a.from(i, p), left);
        for (int64_t jj = 0; jj < nj; jj += panel_width) {
          const uint32_t* panel = right + jj * depth;
          for (int64_t ii = 0; ii < mi; ii += packs_left ? block_rows : mi) {
            const int64_t rows = packs_left ? std::min<int64_t>(block_rows, mi - ii) : mi;
            const Left block = packs_left ? Left{reinterpret_cast<uint16_t*>(left + ii * depth), 2, 2 * rows}
                                          : Left{a.data + i * a.row + p, a.row, 2};
            Result to = whole.from(i + ii, jj);
            to.columns = std::min(panel_width, nj - jj);
            panel_product(rows, packs_left ? depth : kp / 2, !packs_left && kp % 2 != 0, block, panel, to);
          }
        }
      }
    }
  }
}

}  // namespace

void pair_gemm(int64_t m, int64_t n, int64_t k, Matrix<uint16_t> a, Matrix<uint16_t> b, const uint16_t* bias,
               uint16_t* c, int64_t stride) {
  product_of_pairs(m, n, k, a, b, bias, c, stride);
}
void pair_gemm(int64_t m, int64_t n, int64_t k, Matrix<uint16_t> a, Matrix<uint16_t> b, const float* bias, float* c,
               int64_t stride) {
  product_of_pairs(m, n, k, a, b, bias, c, stride);
}

int64_t pair_panel_size(int64_t n, int64_t k) { return (n + panel_width - 1) / panel_width * panel_width * (k / 2); }

void pack_pairs(int64_t k, int64_t n, const uint16_t* columns, uint32_t* to) {
  pack_right(k, n, Matrix<uint16_t>{columns, 1, k}, to);
}

void pair_product_scaled(int64_t m, int64_t n, int64_t k, const uint16_t* a, const uint32_t* panels,
                         const float* a_scale, const float* b_scale, float* c, int64_t stride) {
  const int64_t pairs = k / 2;
  const Result whole{c, stride, true, nullptr, 0, nullptr, 0, a_scale, b_scale};
  for (int64_t j = 0; j < n; j += panel_width) {
    Result to = whole.from(0, j);
    to.columns = std::min(panel_width, n - j);
    panel_product(m, pairs, false, Left{a, k, 2}, panels + j * pairs, to);
  }
}

}  // namespace weft::cpu
HWY_POP_ATTRIBUTES

namespace weft::cpu {

bool has_pair_products() {
  static const bool present = __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                              __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  return present;
}

}  // namespace weft::cpu
#else
namespace weft::cpu {

bool has_pair_products() { return false; }
void pair_gemm(int64_t, int64_t, int64_t, Matrix<uint16_t>, Matrix<uint16_t>, const uint16_t*, uint16_t*, int64_t) {}
void pair_gemm(int64_t, int64_t, int64_t, Matrix<uint16_t>, Matrix<uint16_t>, const float*, float*, int64_t) {}
int64_t pair_panel_size(int64_t, int64_t) { return 0; }
void pack_pairs(int64_t, int64_t, const uint16_t*, uint32_t*) {}
void pair_product_scaled(int64_t, int64_t, int64_t, const uint16_t*, const uint32_t*, const float*, const float*,
                         float*, int64_t) {}

}  // namespace weft::cpu
#endif
