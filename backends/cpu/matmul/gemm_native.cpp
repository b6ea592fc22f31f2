// Own matrix products: a register-blocked kernel over packed panels, straight loops for small ones, and
// matrix-vector products that read the matrix once.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/matmul/gemm_native.cpp"
#include <hwy/foreach_target.h>
#include "../simd/blocks-inl.hpp"

#include <algorithm>

#include "gemm.hpp"
#include "../workspace.hpp"
#include "../pointwise/loops.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(Tag<T>()));

/// Rows and vectors of the largest register block.
#if HWY_TARGET <= HWY_AVX3
constexpr int block_rows = 12;
#else
constexpr int block_rows = 6;
#endif
constexpr int64_t block_vectors = 2;
/// From this depth on, c is fetched while the products run.
constexpr int64_t deep = 128;
/// Panels: the depth, and how many rows of a and columns of b are packed at once.
template <class T>
constexpr int64_t panel_depth = 2048 / sizeof(T);
constexpr int64_t panel_rows = 144;
constexpr int64_t panel_columns = 1024;

template <class T>
HWY_INLINE hn::Vec<Tag<T>> load_some(const T* from, int64_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T buffer[lanes<T>] = {};
  for (int64_t i = 0; i < count; ++i) buffer[i] = from[i];
  return hn::Load(Tag<T>(), buffer);
#else
  return hn::MaskedLoad(hn::FirstN(Tag<T>(), static_cast<size_t>(count)), Tag<T>(), from);
#endif
}
template <class T>
HWY_INLINE void store_some(hn::Vec<Tag<T>> value, T* to, int64_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T buffer[lanes<T>];
  hn::Store(value, Tag<T>(), buffer);
  for (int64_t i = 0; i < count; ++i) to[i] = buffer[i];
#else
  hn::BlendedStore(value, hn::FirstN(Tag<T>(), static_cast<size_t>(count)), Tag<T>(), to);
#endif
}

/// A block of c: `rows` by at most `vectors` vectors; of the last one `tail` columns count where `masked`.
template <class T, int rows, int vectors, bool masked>
HWY_INLINE void block(int64_t k, Matrix<T> a, const T* b, int64_t b_stride, Addend<T> start, T* c, int64_t stride,
                      int64_t tail) {
  const Tag<T> d;
  constexpr int64_t n = lanes<T>;
  hn::Vec<Tag<T>> sum[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) sum[i][j] = hn::Zero(d);
  }
  if (k >= deep) {
    T* line = c;
    for (int i = 0; i < rows; ++i, line += stride) {
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) __builtin_prefetch(line + j * n, 1, 2);
    }
  }
  const T* from = a.data;
  for (int64_t p = 0; p < k; ++p, b += b_stride, from += a.column) {
    hn::Vec<Tag<T>> right[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
      right[j] = masked && j == vectors - 1 ? load_some(b + j * n, tail) : hn::LoadU(d, b + j * n);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const auto left = hn::Set(d, from[i * a.row]);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  }
  if (start.data != nullptr) {
    const T* add = start.data;
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i, add += start.row) {
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) {
        const bool part = masked && j == vectors - 1;
        sum[i][j] = hn::Add(part ? load_some(add + j * n, tail) : hn::LoadU(d, add + j * n), sum[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i, c += stride) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
      if (masked && j == vectors - 1) store_some(sum[i][j], c + j * n, tail);
      else hn::StoreU(sum[i][j], d, c + j * n);
    }
  }
}

/// Every row of c for one column block.
template <class T, int vectors, bool masked>
HWY_NOINLINE void column_block(int64_t m, int64_t k, Matrix<T> a, const T* b, int64_t b_stride, Addend<T> start, T* c,
                               int64_t stride, int64_t tail) {
  for_blocks(m, block_rows, [&](int64_t i, int64_t count) HWY_ATTR {
    with_count<block_rows>(count, [&](auto rows) HWY_ATTR {
      block<T, rows, vectors, masked>(k, a.from(i, 0), b, b_stride, start.from(i, 0), c + i * stride, stride, tail);
    });
  });
}

/// b's rows have unit stride and are `b_stride` apart.
template <class T>
void columns_of(int64_t m, int64_t n, int64_t k, Matrix<T> a, const T* b, int64_t b_stride, Addend<T> start, T* c,
                int64_t stride) {
  constexpr int64_t v = lanes<T>;
  for (; n >= 2 * v; n -= 2 * v, b += 2 * v, c += 2 * v, start = start.from(0, 2 * v)) {
    column_block<T, 2, false>(m, k, a, b, b_stride, start, c, stride, 0);
  }
  if (n > v) column_block<T, 2, true>(m, k, a, b, b_stride, start, c, stride, n - v);
  else if (n == v) column_block<T, 1, false>(m, k, a, b, b_stride, start, c, stride, 0);
  else if (n > 0) column_block<T, 1, true>(m, k, a, b, b_stride, start, c, stride, n);
}

/// to[p * to_stride + j] = from[j * from_stride + p] for j < lines, p < length.
template <class T>
void transpose(int64_t lines, int64_t length, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  constexpr int64_t item = sizeof(T);
  convert_loops.transpose[item == 8 ? 3 : 2](reinterpret_cast<char*>(to), to_stride * item,
                                             reinterpret_cast<const char*>(from), from_stride * item, length, lines);
}

/// One row of a matrix, with elements `step` apart.
template <class T>
HWY_INLINE void pack_row(int64_t columns, const T* from, int64_t step, T* to) {
  int64_t j = 0;
  if (step == 1) {
    for (; j + lanes<T> <= columns; j += lanes<T>) hn::StoreU(hn::LoadU(Tag<T>(), from + j), Tag<T>(), to + j);
  }
  for (; j < columns; ++j) to[j] = from[j * step];
}

/// to[p * to_stride + j] = element (p, j) of a matrix with any strides.
template <class T>
void pack_rows(int64_t rows, int64_t columns, Matrix<T> from, T* to, int64_t to_stride) {
  if (from.row == 1) return transpose(columns, rows, from.data, from.column, to, to_stride);
  for (int64_t p = 0; p < rows; ++p) pack_row(columns, from.data + p * from.row, from.column, to + p * to_stride);
}

/// Columns of a panel.
template <class T>
constexpr int64_t panel_width = block_vectors* lanes<T>;

template <class T>
int64_t packed_size(int64_t n, int64_t k) {
  return (n + panel_width<T> - 1) / panel_width<T> * panel_width<T> * k;
}

/// Rows are read from end to end, since caches foresee that.
template <class T>
Panels<T> pack(int64_t n, int64_t k, Matrix<T> b, T* to) {
  constexpr int64_t width = panel_width<T>;
  const int64_t rows = b.row == 1 ? k : 1;
  for (int64_t p = 0; p < k; p += rows) {
    for (int64_t j = 0; j < n; j += width) {
      pack_rows(rows, std::min(width, n - j), b.from(p, j), to + j * k + p * width, width);
    }
  }
  return {to, k, width};
}

template <class T>
void multiply_panels(int64_t m, int64_t n, int64_t k, Matrix<T> a, Panels<T> b, Addend<T> start, T* c, int64_t stride) {
  constexpr int64_t width = panel_width<T>;
  for (int64_t j = 0; j < n; j += width) {
    columns_of<T>(m, std::min(width, n - j), k, a, b.from(0, j).data, b.row, start.from(0, j), c + j, stride);
  }
}

/// a[m, k] as panels of block_rows rows, in columns; the last panel is narrower.
template <class T>
void pack_left(int64_t m, int64_t k, Matrix<T> a, T* to) {
  for (int64_t i = 0; i < m; i += block_rows) {
    const int64_t count = std::min<int64_t>(block_rows, m - i);
    pack_rows(k, count, a.from(i, 0).transposed(), to, count);
    to += count * k;
  }
}

/// Whether the register blocks may read a in place: its rows are read in parallel, and rows a multiple of a page apart
/// would evict each other from the cache.
template <class T>
bool reads_in_place(const Matrix<T>& a) {
  return a.column == 1 && a.row * static_cast<int64_t>(sizeof(T)) % 4096 != 0;
}

template <class T>
void blocked_gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, Addend<T> start, T* c, int64_t stride) {
  constexpr int64_t width = panel_width<T>;
  const bool packs_left = !reads_in_place(a);
  const int64_t depth = std::min(k, panel_depth<T>), right_size = packed_size<T>(std::min(n, panel_columns), depth);
  const int64_t rows_packed = packs_left ? std::min(m, panel_rows) : 0;
  const Workspace scratch(static_cast<size_t>(right_size + depth * rows_packed) * sizeof(T));
  T* left = scratch.as<T>() + right_size;
  for (int64_t j = 0; j < n; j += panel_columns) {
    const int64_t nj = std::min(panel_columns, n - j);
    for (int64_t p = 0; p < k; p += panel_depth<T>) {
      const int64_t kp = std::min(panel_depth<T>, k - p);
      const Panels<T> right = pack(nj, kp, b.from(p, j), scratch.as<T>());
      for (int64_t i = 0; i < m; i += panel_rows) {
        const int64_t mi = std::min(panel_rows, m - i);
        if (packs_left) pack_left(mi, kp, a.from(i, p), left);
        for (int64_t jj = 0; jj < nj; jj += width) {
          for (int64_t ii = 0; ii < mi; ii += block_rows) {
            const int64_t rows = std::min<int64_t>(block_rows, mi - ii);
            const Matrix<T> block_of_a = packs_left ? Matrix<T>{left + ii * kp, 1, rows} : a.from(i + ii, p);
            T* to = c + (i + ii) * stride + j + jj;
            columns_of<T>(rows, std::min(width, nj - jj), kp, block_of_a, right.from(0, jj).data, width,
                          p > 0 ? Addend<T>{to, stride} : start.from(i + ii, j + jj), to, stride);
          }
        }
      }
    }
  }
}

/// Adds a's rows · x to the totals; rows and x have unit stride.
template <class T, int rows>
HWY_INLINE void add_dots(int64_t k, const T* a, int64_t row, const T* x, double (&total)[rows]) {
  const Tag<T> d;
  constexpr int64_t v = lanes<T>;
  constexpr int parts = rows >= 4 ? 2 : 4;
  hn::Vec<Tag<T>> sum[rows][parts];
  for (int r = 0; r < rows; ++r) {
    for (int q = 0; q < parts; ++q) sum[r][q] = hn::Zero(d);
  }
  int64_t p = 0;
  for (; p + parts * v <= k; p += parts * v) {
#pragma GCC unroll 4
    for (int q = 0; q < parts; ++q) {
      const auto right = hn::LoadU(d, x + p + q * v);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) sum[r][q] = hn::MulAdd(hn::LoadU(d, a + r * row + p + q * v), right, sum[r][q]);
    }
  }
  for (; p < k; p += v) {
    const int64_t count = std::min(v, k - p);
    const auto right = load_some(x + p, count);
    for (int r = 0; r < rows; ++r) sum[r][0] = hn::MulAdd(load_some(a + r * row + p, count), right, sum[r][0]);
  }
  for (int r = 0; r < rows; ++r) {
    for (int q = 1; q < parts; ++q) sum[r][0] = hn::Add(sum[r][0], sum[r][q]);
    total[r] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum[r][0])));
  }
}
/// y[i] = a's row i · x. Long rows are added up in double, a chunk after the other.
template <class T, int rows>
void dot_rows(int64_t k, const T* a, int64_t row, const T* x, Addend<T> start, T* y, int64_t step) {
  constexpr int64_t chunk = 4096;
  double total[rows] = {};
  for (int64_t p = 0; p < k; p += chunk) add_dots<T, rows>(std::min(chunk, k - p), a + p, row, x + p, total);
  for (int r = 0; r < rows; ++r) {
    const T sum = static_cast<T>(total[r]);
    y[r * step] = start.data != nullptr ? start.data[r * start.row] + sum : sum;
  }
}

template <class T>
void dot_gemv(int64_t m, int64_t k, const T* a, int64_t row, const T* x, Addend<T> start, T* y, int64_t step) {
  // Memory is fastest if rows are read in sequence, a cache if rows share the reads of x.
  const bool in_cache = m * k * static_cast<int64_t>(sizeof(T)) <= 1 << 19;
  int64_t i = 0;
  for (; in_cache && i + 4 <= m; i += 4) dot_rows<T, 4>(k, a + i * row, row, x, start.from(i, 0), y + i * step, step);
  for (; i < m; ++i) dot_rows<T, 1>(k, a + i * row, row, x, start.from(i, 0), y + i * step, step);
}

/// y[n] = sum over p of x[p] * b's row p; rows and y have unit stride.
template <class T, int rows>
void add_rows(int64_t n, const T* b, int64_t row, const T* x, int64_t x_step, Addend<T> start, T* y) {
  const Tag<T> d;
  constexpr int64_t v = lanes<T>;
  hn::Vec<Tag<T>> factor[rows];
  for (int r = 0; r < rows; ++r) factor[r] = hn::Set(d, x[r * x_step]);
  int64_t j = 0;
  for (; j + v <= n; j += v) {
    auto sum = start.data != nullptr ? hn::LoadU(d, start.data + j) : hn::Zero(d);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) sum = hn::MulAdd(factor[r], hn::LoadU(d, b + r * row + j), sum);
    hn::StoreU(sum, d, y + j);
  }
  if (j < n) {
    auto sum = start.data != nullptr ? load_some(start.data + j, n - j) : hn::Zero(d);
    for (int r = 0; r < rows; ++r) sum = hn::MulAdd(factor[r], load_some(b + r * row + j, n - j), sum);
    store_some(sum, y + j, n - j);
  }
}

template <class T>
void row_gemv(int64_t n, int64_t k, const T* b, int64_t row, const T* x, int64_t x_step, Addend<T> start, T* y) {
  constexpr int64_t span = 2048;
  for (int64_t j = 0; j < n; j += span) {
    const int64_t count = std::min(span, n - j);
    Addend<T> sum = start.from(0, j);
    int64_t p = 0;
    for (; p + 8 <= k; p += 8, sum = {y + j, 0}) {
      add_rows<T, 8>(count, b + p * row + j, row, x + p * x_step, x_step, sum, y + j);
    }
    for (; p < k; ++p, sum = {y + j, 0})
      add_rows<T, 1>(count, b + p * row + j, row, x + p * x_step, x_step, sum, y + j);
  }
}
/// The same for many rows: groups of them are added up apart, so that small terms are not lost beside their sum.
template <class T>
void deep_row_gemv(int64_t n, int64_t k, const T* b, int64_t row, const T* x, int64_t x_step, Addend<T> start, T* y) {
  constexpr int64_t span = 512, group = 4096;
  alignas(64) T part[span];
  alignas(64) double total[span];
  for (int64_t j = 0; j < n; j += span) {
    const int64_t count = std::min(span, n - j);
    for (int64_t i = 0; i < count; ++i) total[i] = start.data != nullptr ? start.data[j + i] : T(0);
    for (int64_t p = 0; p < k; p += group) {
      row_gemv<T>(count, std::min(group, k - p), b + p * row + j, row, x + p * x_step, x_step, {}, part);
      for (int64_t i = 0; i < count; ++i) total[i] += part[i];
    }
    for (int64_t i = 0; i < count; ++i) y[j + i] = static_cast<T>(total[i]);
  }
}
template <class T>
void rows_gemv(int64_t n, int64_t k, const T* b, int64_t row, const T* x, int64_t x_step, Addend<T> start, T* y) {
  if (k <= 8192) row_gemv(n, k, b, row, x, x_step, start, y);
  else deep_row_gemv(n, k, b, row, x, x_step, start, y);
}

/// m or n is 1 and the other operand has a unit stride; false where no such kernel fits.
template <class T>
bool vector_gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, Addend<T> start, T* c, int64_t stride) {
  if (m == 1 && b.column == 1 && !(n == 1 && b.row == 1 && a.column == 1)) {
    rows_gemv(n, k, b.data, b.row, a.data, a.column, start, c);
    return true;
  }
  if (m == 1 && b.row == 1 && a.column == 1) {
    dot_gemv(n, k, b.data, b.column, a.data, Addend<T>{start.data, 1}, c, int64_t{1});
    return true;
  }
  if (n == 1 && a.column == 1 && b.row == 1) {
    dot_gemv(m, k, a.data, a.row, b.data, start, c, stride);
    return true;
  }
  if (n == 1 && a.row == 1 && stride == 1 && (start.data == nullptr || start.row == 1)) {
    rows_gemv(m, k, a.data, a.column, b.data, b.row, start, c);
    return true;
  }
  return false;
}

template <class T>
void run(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, Addend<T> start, T* c, int64_t stride) {
  if ((m == 1 || n == 1) && vector_gemm(m, n, k, a, b, start, c, stride)) return;
  constexpr int64_t direct_elements = 32768 / sizeof(T);
  if (b.column == 1 && (m <= block_rows || n * k <= direct_elements)) {
    constexpr int64_t depth = 4096;  // a longer sum would lose its small terms
    for (int64_t p = 0; p < k; p += depth, start = {c, stride}) {
      columns_of(m, n, std::min(depth, k - p), a.from(0, p), b.data + p * b.row, b.row, start, c, stride);
    }
    return;
  }
  constexpr int64_t small = 1024;
  if (n * k <= small) {
    HWY_ALIGN T buffer[small];
    pack_rows(k, n, b, buffer, n);
    columns_of(m, n, k, a, buffer, n, start, c, stride);
    return;
  }
  blocked_gemm(m, n, k, a, b, start, c, stride);
}

#define WEFT_FOR_TYPE(T, name)                                                                                     \
  void run_##name(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, Addend<T> start, T* c, int64_t row) { \
    run(m, n, k, a, b, start, c, row);                                                                             \
  }                                                                                                                \
  int64_t packed_size_##name(int64_t n, int64_t k) { return packed_size<T>(n, k); }                                \
  Panels<T> pack_##name(int64_t n, int64_t k, Matrix<T> b, T* to) { return pack(n, k, b, to); }                    \
  void run_panels_##name(int64_t m, int64_t n, int64_t k, Matrix<T> a, Panels<T> b, Addend<T> start, T* c,         \
                         int64_t row) {                                                                            \
    multiply_panels(m, n, k, a, b, start, c, row);                                                                 \
  }
WEFT_FOR_TYPE(float, f32)
WEFT_FOR_TYPE(double, f64)
#undef WEFT_FOR_TYPE

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

#define WEFT_FOR_TYPE(T, name)                                                                                      \
  HWY_EXPORT(run_##name);                                                                                           \
  HWY_EXPORT(packed_size_##name);                                                                                   \
  HWY_EXPORT(pack_##name);                                                                                          \
  HWY_EXPORT(run_panels_##name);                                                                                    \
  void native_gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, Addend<T> start, T* c, int64_t row) { \
    HWY_DYNAMIC_DISPATCH(run_##name)(m, n, k, a, b, start, c, row);                                                 \
  }                                                                                                                 \
  template <>                                                                                                       \
  int64_t packed_size<T>(int64_t n, int64_t k) {                                                                    \
    return HWY_DYNAMIC_DISPATCH(packed_size_##name)(n, k);                                                          \
  }                                                                                                                 \
  Panels<T> pack_right(int64_t n, int64_t k, Matrix<T> b, T* to) {                                                  \
    return HWY_DYNAMIC_DISPATCH(pack_##name)(n, k, b, to);                                                          \
  }                                                                                                                 \
  void panels_gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Panels<T> b, Addend<T> start, T* c, int64_t row) { \
    HWY_DYNAMIC_DISPATCH(run_panels_##name)(m, n, k, a, b, start, c, row);                                          \
  }
WEFT_FOR_TYPE(float, f32)
WEFT_FOR_TYPE(double, f64)
#undef WEFT_FOR_TYPE

}  // namespace weft::cpu
#endif
