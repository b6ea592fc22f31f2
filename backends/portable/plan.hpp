// The arguments of portable kernels: plain structs with the same C layout on the host and on every device.
#pragma once

#include "../../tensor/view.hpp"

namespace weft::portable {

/// The common dimensions of N operands, innermost first, neighbours merged where every operand allows it; strides in
/// bytes.
template <int N>
struct Walk {
  int64_t count;
  int32_t rank;
  int32_t reserved;
  int64_t sizes[max_rank];
  int64_t strides[N][max_rank];
};

/// An operand that is one number of the compute type, passed by value: its bits.
struct HostScalar {
  uint64_t bits;
};

/// The layout of the non-scalar operands of a pointwise kernel.
enum Density : uint8_t {
  strided,
  dense,  ///< contiguous and of the compute type; an output that is bool, too
  pairs,  ///< an even number of contiguous floats of 16 bits, from the start of a word on: a work-item takes two
};
/// A pointwise kernel of N operands; operand 0 of the walk is the output.
template <int N>
struct Pointwise {
  Walk<N + 1> walk;
  HostScalar scalar[N];
  DType dtype[N + 1];
  uint8_t is_scalar[N];
  Density density;
};

/// Rows along one dimension of N operands: where they start, and the steps along them.
template <int N>
struct Rows {
  Walk<N> walk;
  int64_t length;
  int64_t step[N];
  DType dtype[N];
};

struct Reduce {
  Walk<2> kept;     ///< of out and in
  Walk<1> reduced;  ///< of in
  int64_t piece;    ///< elements that one team reduces
  int64_t pieces;   ///< teams per output; with more than one, out is [outputs, pieces] of the compute type
  int64_t divisor;  ///< of a mean; -1 for none
  float correction;
  DType to, from;
  uint8_t by_columns;  ///< neighbouring work-items take neighbouring outputs instead of elements of one
};

struct ArgReduce {
  Rows<2> rows;
  uint8_t largest;
};

struct Scan {
  Rows<2> rows;
  uint8_t exclusive, reverse;
  uint8_t by_columns;  ///< neighbouring work-items take neighbouring lines instead of parts of one
};

/// Scans besides sums; operands: out, x, the extremes' indices.
struct Running {
  Rows<3> rows;
  uint8_t largest;
  uint8_t by_columns;  ///< as of a scan
};

/// [batch..., M, K] x [batch..., K, N]; operands: out, a, b, bias.
struct Matmul {
  Walk<4> batch;
  int64_t m, n, k;
  int64_t row[4], column[4];
  DType dtype[4];
  uint8_t has_bias;
};

/// Rows of a [batch, heads, length, width] operand of attention, by their steps in bytes.
struct Heads {
  int64_t batch, head, row, column;
  DType dtype;
};
/// Operands that a kernel lacks are not read. Numbers for each query have no width.
struct Attention {
  int64_t sequences, heads, key_heads, queries, keys, depth, width;  ///< the most queries and keys of a sequence
  Heads q, k, v, out, g, mask, log_sum_exp, delta, dq, dk, dv, slopes;
  int64_t before, after, block_size, blocks;
  /// Keys are split into pieces, with results this many bytes apart until they are merged.
  int64_t pieces, piece_keys, out_step, log_sum_exp_step;
  int64_t length;  ///< rows of q's in each head
  uint8_t at_end, has_mask, has_slopes, has_sequences, has_blocks;
};
/// The value of `before` and `after` without a limit.
enum : int64_t { attention_unlimited = 0x1fffffffffffffff };
/// Columns of the results that a group computes.
enum { attention_columns = 128 };
/// Edges of its tiles of scores: f32, f64, and for few queries.
enum { attention_edge_f32 = 64, attention_edge_f64 = 32, attention_edge_small = 16 };
/// Keys of a piece where few queries see more; a multiple of the small edge.
enum { attention_piece = 256 };

/// One of a convolution's products, for each group: rows x columns numbers, each a sum of `depth` products.
struct Convolve {
  int64_t batch, groups, channels, outputs;  ///< channels and outputs of one group
  int64_t in[3], window[3], out[3], stride[3], padding[3], dilation[3];
  int64_t elements, taps, places;  ///< of one channel, kernel and output
  int64_t rows, columns, depth;
  int64_t line;           ///< columns of one image
  int64_t piece, pieces;  ///< of a sum that is cut; the result has all of the first, then of the second and so on
  uint8_t has_bias;
};
/// Edge of the tiles that a group computes.
enum { convolution_edge = 64 };

struct Pooling {
  int64_t windows, elements;  ///< of all planes
  int64_t in[3], out[3], size[3], stride[3], padding[3], dilation[3];
  uint8_t has_index;
};

/// One step of a recurrent layer: `count` rows of `hidden` units. Matrices are contiguous and start at the first row
/// that counts, but for gates and `product` [count, gates * hidden]. Rows from `known` on begin here.
struct RecurrentUnits {
  int64_t count, hidden, known;
  uint8_t keeps, has_bias, has_g;
};

/// x, g and the result are [batch, channels, length]; per-channel operands are contiguous.
struct BatchNorm {
  int64_t batch, channels, length;
  int64_t out[3], x[3], g[3];  ///< steps
  DType out_dtype, x_dtype, g_dtype;
  uint8_t has_weight, has_bias, has_out, has_dweight, has_dbias;
};

/// Where a kernel reports an index that is out of range: memory that the host can read.
struct BadIndex {
  uint32_t call;  ///< 0 where all were right
  int32_t dim;
  int64_t index, size;
  uint32_t wraps;  ///< as of the check
};
struct IndexCheck {
  uint32_t call;
  int32_t dim;
  uint32_t wraps;  ///< whether negative indices count from the end
};

/// out[outer, j, inner] and x[outer, index[j], inner].
struct IndexSelect {
  Walk<2> outer, inner;
  int64_t count, size;
  int64_t out_step, x_step, index_step;
  IndexCheck check;
  int32_t item;
  DType index_dtype;
};

struct Gather {
  Walk<3> walk;  ///< of out, x without the dimension that is indexed, index
  int64_t size, x_step;
  IndexCheck check;
  int32_t item;
  DType index_dtype;
};

/// An IndexPlan over positions; operands of the walk: the values, the base, the indices.
struct IndexLookup {
  Walk<2 + max_rank> walk;
  int64_t sizes[max_rank], strides[max_rank];
  int32_t dims[max_rank];
  DType dtype[max_rank];
  uint32_t call, wraps;
  int32_t count;
};

/// Every position writes a slab.
struct Put {
  Walk<1> positions;  ///< of the values
  Walk<2> slab;       ///< of the base and the values
  int32_t item;
  DType dtype;
};

/// The elements of a line: all of them; real parts only; or the first n / 2 + 1 of a conjugate-symmetric line.
enum FourierForm : uint8_t { fourier_complex, fourier_real, fourier_half };
/// Discrete Fourier transforms of lines of n numbers, some of those that operands have.
struct Fourier {
  Rows<2> rows;  ///< of out and in
  int64_t n, first_line, lines;
  FourierForm form[2];  ///< of out and in
  uint8_t conjugate;    ///< the numbers that are read, and those that are written
};
/// A stage of radix `radix`: each work-item transforms that many numbers. Intermediate data is in scratch memory,
/// [lines, n].
struct FourierStage {
  Fourier lines;
  int64_t span;  ///< the product of the radices before
  int32_t radix;
  uint8_t reads_operand, writes_operand;
};
/// As a convolution of a length m that is a power of two, at least 2n - 1.
struct FourierConvolution {
  Fourier lines;
  int64_t m;
};

/// Bags of rows of a table [rows, width]; bag b has the indices from begins[b] up to the next bag's.
struct Bags {
  int64_t bags, indices, rows, width, padding;
  IndexCheck check;
  uint8_t mean, has_factors;
};

/// x [outer, from, inner] to out [outer, to, inner].
struct Resample {
  int64_t outer, from, to, inner, taps;
};

/// Images [images, channels, sizes ...] of `size` elements and places [rank, images, places].
struct Sampling {
  int64_t images, channels, places, size, sizes[3];
  int32_t rank;
};

struct Sort {
  Walk<3> lines;  ///< of x, out, order
  int64_t length, step[3];
  int32_t item;
  DType dtype;
  uint8_t descending, has_out, has_order;
};

/// Every rank is looked for by itself.
struct SelectRank {
  Walk<3> lines;  ///< of order, ranks, the start of x's line
  int64_t length, step;
  DType dtype;
};

struct Search {
  Walk<3> walk;  ///< of out, values, the start of the sorted line
  int64_t length, step;
  DType dtype;
  uint8_t right;
};

/// Nonzero elements, counted and selected by one team per chunk of positions.
struct Mask {
  Walk<2> walk;  ///< of the mask and the data
  int64_t chunk;
  uint64_t truth;   ///< those bits of the mask's element that are not all 0 where it holds
  uint64_t always;  ///< bits that count as set: of a format without zero
  int32_t mask_item, item;
};
struct Coordinates {
  int64_t sizes[max_rank];
  int64_t row, column;  ///< steps of the output
  int32_t rank;
};

/// One [rows, n] operand of a norm, or a vector of n or of rows (with row or column 0).
struct Matrix {
  int64_t row, column;
  DType dtype;
  uint8_t present;
};
struct Norm {
  int64_t rows, n;
  Matrix x, out, g, weight, bias, mean, rstd;
  uint8_t centered;
};
struct CrossEntropy {
  int64_t rows, classes;
  Matrix logits, out, losses, log_sum_exp, g, targets;
  int64_t ignore_index;
  IndexCheck check;
};

/// Of an element (i, j) the scale is at (i / rows, j / columns).
struct BlockScales {
  Matrix scale;
  int64_t rows, columns;
};
/// A matrix of codes of 4 or 8 bits, or of floats of more. An element decodes to (code - offset) * scale + zero, with
/// zero indexed like scale; without a scale to its code. Codes of 4 bits are in pairs along rows, the first in the low
/// half of its byte.
struct Codes {
  Matrix codes, zero;
  BlockScales scales;
  int32_t bits, offset;
};
struct Dequantize {
  int64_t m, n;
  Matrix out;
  Codes codes;
};
/// out [m, n] = start + the products of the rows of a [m, k] with those of b [n, k]. The sum of each segment of the
/// columns is scaled by its scales, if any.
struct CodedProduct {
  int64_t m, n, k, segment;
  Codes a, b;
  BlockScales a_sums, b_sums;
  Matrix out, start;
  int32_t run;  ///< codes of b that a team's lane takes at a time: those of a word, or one
};
enum { coded_rows_together = 4 };
/// A block is split into pieces, one per team. The quantised value is x, or swiglu of the halves if `gated`, times its
/// scales, and rounded to the dtype `rounded`.
struct Quantize {
  int64_t m, n, blocks, piece, pieces;
  Matrix x, codes;
  BlockScales scales, x_scales;
  float largest_code, epsilon;
  uint8_t power_of_two, gated;
  DType rounded;
};
/// x [m, 2 n] and its gradient, g and y [m, n]; steps of vectors of m.
struct GatedGradient {
  int64_t m, n, weight_step, dweight_step;
  Matrix dx, y, x, g;
};

struct Draw {
  Walk<1> walk;
  uint64_t key, subsequence, offset;
  int64_t low;
  uint64_t range, threshold;
  int32_t words;  ///< per element
  DType dtype;
  uint8_t distribution;
};
template <class C>
struct DrawNumbers {
  C a, b, last;  ///< low, span and last of a uniform draw; mean and deviation of a normal one
};

/// Parameters that one launch of an optimizer's kernel takes; of slot k the elements are those from begins[k] up to the
/// next slot's.
enum { slots_at_once = 4 };
struct Slots {
  int64_t begins[slots_at_once + 1];
  DType dtype;  ///< of parameters and gradients; state is in the kernel's numbers
};

}  // namespace weft::portable
