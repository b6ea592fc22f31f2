// One entry point for matrix products of floats on one thread: own kernels or oneDNN.
//
// OpenBLAS is not used. The serial library of Debian 12 hands out buffers without a lock, so concurrent products may
// be wrong, and the threaded variant starts threads in every process. This GEMM computes f64, small products,
// attention, f32 without AVX-512, and bfloat16 on AVX512_BF16.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::cpu {

/// Element (i, j) is data[i * row + j * column].
template <class T>
struct Matrix {
  const T* data;
  int64_t row, column;

  Matrix transposed() const { return {data, column, row}; }
  Matrix from(int64_t i, int64_t j) const { return {data + i * row + j * column, row, column}; }
};

/// The initial value of a product: rows of unit stride, `row` apart (0: one row for all). Null data means zeros.
template <class T>
struct Addend {
  const T* data = nullptr;
  int64_t row = 0;

  Addend from(int64_t i, int64_t j) const { return {data != nullptr ? data + i * row + j : nullptr, row}; }
};

enum class GemmCode : uint8_t { native, onednn };

/// The fastest code for a problem of this shape on this CPU.
template <class T>
GemmCode choose_gemm(int64_t m, int64_t n, int64_t k);

/// c[m, n] = start + a[m, k] · b[k, n]; `start` may be c itself. c has rows of unit stride, `stride` apart. Each of a
/// and b has a unit stride, except that the own kernels take any.
template <class T>
void gemm(GemmCode code, int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, Addend<T> start, T* c,
          int64_t stride);

struct MatrixTiles {
  int64_t rows, columns;
};
/// Tiles near to squares, the more the larger the problem: packing costs each of them its share of both operands. The
/// products of a batch are parts already. Whole rows go first where b is narrow: bands of dense matrices are dense.
MatrixTiles choose_tiles(int64_t batch, int64_t m, int64_t n, int64_t k);

/// As `gemm`, by the own kernels.
void native_gemm(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b, Addend<float> start, float* c,
                 int64_t stride);
void native_gemm(int64_t m, int64_t n, int64_t k, Matrix<double> a, Matrix<double> b, Addend<double> start, double* c,
                 int64_t stride);

/// b[k, n] in panels of a few columns with rows `row` apart: element (p, j) of one is data[p * row + j]. Panel after
/// panel as pack_right puts them, `column` is the depth; panels of a dense matrix in place have a `column` of 1.
template <class T>
struct Panels {
  const T* data = nullptr;
  int64_t column = 0, row = 0;

  /// From row p and column j on, which starts a panel.
  Panels from(int64_t p, int64_t j) const { return {data + j * column + p * row, column, row}; }
};
/// How many numbers pack_right writes.
template <class T>
int64_t packed_size(int64_t n, int64_t k);
Panels<float> pack_right(int64_t n, int64_t k, Matrix<float> b, float* to);
Panels<double> pack_right(int64_t n, int64_t k, Matrix<double> b, double* to);
/// As above, for many products with one b. The kernels read a in place: rows a multiple of a page apart are slow.
void panels_gemm(int64_t m, int64_t n, int64_t k, Matrix<float> a, Panels<float> b, Addend<float> start, float* c,
                 int64_t stride);
void panels_gemm(int64_t m, int64_t n, int64_t k, Matrix<double> a, Panels<double> b, Addend<double> start, double* c,
                 int64_t stride);

/// Whether a product of bfloat16 is faster with the CPU's own instructions than in f32.
bool has_fast_bf16_gemm(int64_t m, int64_t n);
/// As `gemm` on bfloat16, with sums in f32 that are rounded once where T is bfloat16; T is uint16_t for that, or float.
/// `bias` is null or n numbers. Every matrix has a unit stride.
template <class T>
void bf16_gemm(int64_t m, int64_t n, int64_t k, Matrix<uint16_t> a, Matrix<uint16_t> b, const T* bias, T* c,
               int64_t stride);

/// As `bf16_gemm` by the own kernels, where the CPU has products of pairs in its vector units.
bool has_pair_products();
void pair_gemm(int64_t m, int64_t n, int64_t k, Matrix<uint16_t> a, Matrix<uint16_t> b, const uint16_t* bias,
               uint16_t* c, int64_t stride);
void pair_gemm(int64_t m, int64_t n, int64_t k, Matrix<uint16_t> a, Matrix<uint16_t> b, const float* bias, float* c,
               int64_t stride);

/// How many numbers pack_pairs writes for n columns of depth k.
int64_t pair_panel_size(int64_t n, int64_t k);
/// Columns [n, k] of bfloat16, dense, k even, in panels of pairs.
void pack_pairs(int64_t k, int64_t n, const uint16_t* columns, uint32_t* to);
/// c[i, j] += (a[m, k] · b)[i, j] * a_scale[i] * b_scale[j], where a is dense, k even, and b's n columns are in panels;
/// b_scale has room for whole panels.
void pair_product_scaled(int64_t m, int64_t n, int64_t k, const uint16_t* a, const uint32_t* panels,
                         const float* a_scale, const float* b_scale, float* c, int64_t stride);

}  // namespace weft::cpu
