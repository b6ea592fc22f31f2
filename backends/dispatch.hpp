// The dispatch table: one row of typed kernel pointers per kind of device.
//
// Kernels see only Views: no reference counts, no autograd. Before a kernel is called, ops/ has checked every shape,
// dtype and device and has allocated every output from the record's shape rule, so kernels validate nothing again,
// except values that only they read (indices). A null pointer means the device lacks the kernel: the op's composite
// body runs instead, or NotImplementedError names the remedy.
//
// Conventions that hold for every kernel:
//   * Inputs may have any strides, zero and negative ones included. `out` may be strided, but never overlaps itself.
//   * `out` may be the same memory as an input of equal layout (in-place); partial overlap never reaches a kernel.
//   * Broadcasting is done by the caller: every operand already has the rank and sizes of `out`, with stride 0 where
//     it repeats. An operand with `layout.host_scalar` set is one element in host memory (stride 0 everywhere).
//   * A dtype that a kernel does not serve raises DTypeError through `unsupported`.
//   * 0-size outputs are legal and cheap; reductions over nothing give the identity.
//   * CPU kernels split large work over the thread pool; the result never depends on the number of threads.
//
// Pointwise families have one pointer each, which takes the op as an enumerator. The CPU's table is constant; the
// table of a device is filled when the device starts.
#pragma once

#include <cstdint>
#include <span>

#include "../tensor/atomic.hpp"
#include "../tensor/call.hpp"
#include "../tensor/config.hpp"
#include "../tensor/device.hpp"
#include "../tensor/dtype.hpp"
#include "../tensor/scalar.hpp"
#include "../tensor/view.hpp"
#include "activation.hpp"
#include "functors/optimizer_rows.hpp"

namespace weft {

// The pointwise ops; functors/lists.hpp has their enumerators. Few files need those, and every new op adds one.
enum class UnaryOp : uint8_t;
enum class BinaryOp : uint8_t;
enum class CompareOp : uint8_t;
enum class TernaryOp : uint8_t;

#define WEFT_ENUMERATOR(name, ...) name,
/// How an optimizer steps: the rows of functors/optimizer_rows.hpp.
enum class OptimizerStep : uint8_t { WEFT_OPTIMIZER_STEPS(WEFT_ENUMERATOR) count };
#undef WEFT_ENUMERATOR

enum class Reduction : uint8_t { sum, mean, prod, max, min, any, all };
enum class ArgReduction : uint8_t { max, min };

/// A draw from the counter-based generator: Philox4x32-10 with this key and the first counter (in units of 4 words).
struct PhiloxSeed {
  uint64_t key = 0;
  uint64_t subsequence = 0;
  uint64_t offset = 0;
};
enum class Distribution : uint8_t {
  uniform,    ///< [a, b)
  normal,     ///< mean a, standard deviation b
  bernoulli,  ///< 1 with probability a, else 0
  integers,   ///< integers in [a, b), from the low bits
};

/// One parameter's tensors in a fused optimizer step, dense with the same element order: parameter and gradient of one
/// dtype, the state, as much of it as the step has, f64 for f64 and f32 for others.
struct OptimizerSlot {
  View parameter, gradient, state[3];
};
using OptimizerSettings = OptimizerFactors<double>;

/// The selection of advanced indexing. It has the layout of `base` in index_get and index_put: a dimension that comes
/// from indices has stride 0 there, and index k adds its value, brought into [0, sizes[k]), times strides[k] bytes.
struct IndexPlan {
  int count = 0;
  View indices[max_rank];     ///< i32 or i64, with the selection's sizes; stride 0 where they repeat
  int64_t sizes[max_rank];    ///< of the indexed dimensions
  int64_t strides[max_rank];  ///< of the indexed dimensions, in bytes
  int dims[max_rank];         ///< which dimension of the tensor each indexes, for errors
  bool wraps = true;          ///< whether negative indices count from the end
};
/// How a scatter combines a value with the existing one.
enum class Scatter : uint8_t { replace, sum, prod, max, min };

enum class Pool : uint8_t { max, mean };
/// The windows of pooling along a plane's three dimensions: window i has the elements i * stride - padding + k *
/// dilation for k below `size`, at least one of them inside the plane.
struct PoolPlan {
  struct Line {
    int64_t size = 1, stride = 1, padding = 0, dilation = 1;
    /// Of a mean: each window's share of the divisor.
    std::span<const double> extents = {};
  };
  Line lines[3];
};

/// Parameters of attention besides its operands. Query i of a sequence sees keys i + shift - before … i + shift +
/// after.
struct AttentionPlan {
  static constexpr int64_t unlimited = INT64_MAX / 4;
  double scale = 1;
  int64_t before = unlimited, after = unlimited;
  /// The shift is the number of keys minus that of queries, so that the last query is aligned with the last key; else
  /// 0.
  bool at_end = false;
  /// [batch or sequences, heads], compute type: scores get slope * (key - query - shift). Null data where absent.
  View slopes = {};
  /// i64 [n, 4], contiguous; null data if absent. Otherwise operands have a batch of 1 with the rows of n sequences,
  /// each given by first query, number of queries, first key, number of keys. Rows between sequences are not written.
  View sequences = {};
  /// i64 [n, blocks], contiguous; null data where absent. Key j of sequence n is row
  /// blocks[n, j / block_size] * block_size + j % block_size of k and v.
  View blocks = {};
  int64_t block_size = 1;
  /// Of any sequence.
  int64_t most_queries = 0, most_keys = 0;
};

/// The products of a convolution: y = x * w, and its gradients by data, x = g * w, and by weight, w = x * g.
enum class Convolution : uint8_t { forward, by_data, by_weight };
/// By spatial dimension; `padding` is that at the low end, the sizes give the other one.
struct ConvolutionSteps {
  int64_t stride[3], padding[3], dilation[3];
  int64_t groups;
};

/// The cells of recurrent layers. Gates are concatenated: i, f, g, o for lstm, r, z, n for gru; the others have one.
enum class Cell : uint8_t { tanh, relu, lstm, gru };
/// The steps of a recurrent layer in one direction. The rows of all steps are concatenated.
struct RecurrentSteps {
  int64_t count;
  bool reverse;  ///< from the last to the first
  /// How many rows of the batch, the first ones, each step has, never more than the one before; empty: all of them.
  std::span<const int64_t> rows;
};

struct KernelTable {
  // Pointwise: floats of 16 bits are computed in f32. A host scalar operand has the compute type of the others.
  void (*unary)(UnaryOp, const View& out, const View& a);
  /// out = the formula's gradient for its input, from the incoming gradient g and the saved input or output.
  void (*unary_gradient)(UnaryOp, const View& out, const View& g, const View& saved);
  void (*binary)(BinaryOp, const View& out, const View& a, const View& b);
  /// `out` is bool; a and b share one dtype. On the CPU `a` may also be integers and `b` floats: those are compared
  /// exactly.
  void (*compare)(CompareOp, const View& out, const View& a, const View& b);
  void (*ternary)(TernaryOp, const View& out, const View& a, const View& b, const View& c);
  void (*where)(const View& out, const View& condition, const View& a, const View& b);
  /// x with other numbers for NaN and the infinities; contiguous, f32 or f64.
  void (*nan_to_num)(const View& out, const View& x, double nan, double positive, double negative);
  /// The number after a in the direction of b; contiguous, f32 or f64.
  void (*nextafter)(const View& out, const View& a, const View& b);
  /// Converts between any two dtypes, bool, storage-only and 8-bit ones included; float to int truncates toward zero.
  void (*copy)(const View& out, const View& in);
  void (*fill)(const View& out, Scalar value);

  // Reductions. `out` has the rank of `in`; a reduced dimension has size 1. Sums of 16-bit floats accumulate in f32.
  // sum, prod: out dtype = in's (or i64 for integers and bool, or a wider float). max, min: NaN wins. any, all: out is
  // bool.
  void (*reduce)(Reduction, const View& out, const View& in);
  /// Index of the first extreme along `dim` (NaN wins) to `out` (i64, that dim has size 1).
  void (*arg_reduce)(ArgReduction, const View& out, const View& in, int dim);
  /// Variance with divisor max(0, n - correction), computed in two passes or by Welford; layouts as `reduce`.
  void (*variance)(const View& out, const View& in, double correction);
  void (*cumsum)(const View& out, const View& in, int dim, bool exclusive, bool reverse);
  /// The discrete Fourier transform along `dim`, times `factor`: of complex numbers, or where `in` is real the first
  /// n / 2 + 1 numbers of it, or where `out` is real the inverse of that. f32 and f64; `inverse` of complex ones alone.
  void (*fourier)(const View& out, const View& in, int dim, bool inverse, double factor);
  /// Prefix products along `dim`. Those of f32 are carried in double, integers wrap.
  void (*running_product)(const View& out, const View& x, int dim);
  /// log of the prefix sums of exp(x) along `dim`, carried in double; contiguous, f32 or f64.
  void (*running_log_sum_exp)(const View& out, const View& x, int dim);
  /// The extreme so far along `dim`, and the last index of it (i64); NaN wins. Contiguous; f32, f64 or integers.
  void (*running_extreme)(const View& out, const View& index, const View& x, int dim, bool largest);

  // Rows along one dimension.
  void (*softmax)(const View& out, const View& in, int dim, bool logarithm);
  void (*softmax_gradient)(const View& out, const View& g, const View& y, int dim, bool logarithm);

  /// out[..., M, N] = a[..., M, K] · b[..., K, N] (+ bias broadcast to out, bias.data may be null); equal batch sizes
  /// or stride 0. f16 and bf16 accumulate in f32. K = 0 gives zeros (or the bias).
  void (*matmul)(const View& out, const View& a, const View& b, const View& bias);

  /// Data [batch, groups * channels, spatial ...], weights [groups * outputs, channels, kernel ...], both contiguous,
  /// with three spatial dimensions, in f32 or f64. `a` and `b` are the operands named above, in that order; `bias`
  /// [groups * outputs] is of the forward product alone, and its data may be null.
  void (*convolution)(Convolution, const View& out, const View& a, const View& b, const View& bias,
                      const ConvolutionSteps&);

  // Norms over the last dimension of 2-d views [rows, n]; weight and bias [n], data null where absent.
  // mean and rstd are [rows] in the compute type.
  void (*layer_norm)(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                     const View& bias, double epsilon);
  /// Any of dx, dweight, dbias may have null data. dweight and dbias are overwritten.
  void (*layer_norm_gradient)(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                              const View& mean, const View& rstd, const View& weight);
  void (*rms_norm)(const View& out, const View& rstd, const View& x, const View& weight, double epsilon);
  void (*rms_norm_gradient)(const View& dx, const View& dweight, const View& g, const View& x, const View& rstd,
                            const View& weight);

  /// Over the batch and the length of x [batch, channels, length]. The rest is [channels], contiguous and in the
  /// compute type; weight and bias may have no data. `variance` is the biased one.
  void (*batch_norm)(const View& out, const View& mean, const View& variance, const View& x, const View& weight,
                     const View& bias, double epsilon);
  /// Any of dx, dweight, dbias may have null data.
  void (*batch_norm_gradient)(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                              const View& mean, const View& rstd, const View& weight);

  /// losses [rows] and log_sum_exp [rows] in the compute type from logits [rows, classes] and targets [rows] i64. Rows
  /// with the target `ignore_index` give 0. A target outside [0, classes) raises IndexError.
  void (*cross_entropy)(const View& losses, const View& log_sum_exp, const View& logits, const View& targets,
                        int64_t ignore_index, double label_smoothing);
  /// dlogits = (softmax - onehot) * g per row; g [rows] may have stride 0.
  void (*cross_entropy_gradient)(const View& dlogits, const View& g, const View& logits, const View& log_sum_exp,
                                 const View& targets, int64_t ignore_index, double label_smoothing);

  // Indexing. index dtypes: i32 or i64. Out of range: IndexError, before old data is written. Negative indices are out
  // of range, but count from the end in index_get and index_put where the plan says so.
  /// out[..., j, ...] = x[..., index[j], ...] along dim; index is 1-d.
  void (*index_select)(const View& out, const View& x, int dim, const View& index);
  /// out[..., index[j], ...] += source[..., j, ...]; duplicates add, in order of j (deterministic).
  void (*index_add)(const View& out, int dim, const View& index, const View& source);
  /// out[i][j] = x[index[i][j]][j] and so on, as torch.gather; index has the shape of out.
  void (*gather)(const View& out, const View& x, int dim, const View& index);
  /// out[index[i][j]][j] is combined with source[i][j], and so on, in row-major order of the indices.
  void (*scatter)(Scatter, const View& out, int dim, const View& index, const View& source);
  /// scatter into a copy of x: out, dense and fresh, is x with source combined into it. May be null.
  void (*scatter_copy)(Scatter, const View& out, const View& x, int dim, const View& index, const View& source);
  /// out[s] = base[s + the indices' offsets] for every position s of the selection; any dtype.
  void (*index_get)(const View& out, const View& base, const IndexPlan&);
  /// base[s + the indices' offsets] = values[s], the last in row-major order winning; with `accumulate` every one adds
  /// (bool: or), 16-bit floats by a sum in f32 that is rounded once. `values` never overlaps `base`.
  void (*index_put)(const View& base, const View& values, const IndexPlan&, bool accumulate);
  /// The number of elements that are not 0; waits for a device.
  int64_t (*count_nonzero)(const View& x);
  /// Coordinates of the elements that are not 0, in row-major order: out [count, rank of x] i64, strided in any way.
  void (*nonzero)(const View& out, const View& x);
  /// The elements of x where mask (bool, of x's sizes) holds, in row-major order; out [count] is contiguous.
  void (*masked_select)(const View& out, const View& x, const View& mask);
  /// Element i of source (1-d, contiguous) to the i-th place of out where mask holds.
  void (*masked_scatter)(const View& out, const View& mask, const View& source);
  /// Each line along `dim` in ascending order (or descending), NaN last (first); `order` (i64) is the permutation.
  /// Equal elements keep their order. The data of `out` or `order` may be null. On the CPU they may be shorter than x
  /// along `dim` and get the first of each line.
  void (*sort)(const View& out, const View& order, const View& x, int dim, bool descending);
  /// order (i64) = the position, in the line of x along `dim`, of the element that would be at the rank if the line
  /// were sorted. ranks (i64) are of order's shape, from 0 on.
  void (*select_rank)(const View& order, const View& x, const View& ranks, int dim);
  /// out (i64) = how many elements of the sorted line of `sorted` along the last dimension are below value (or not
  /// above, with `right`). sorted is 1-d, or has the outer sizes of values.
  void (*searchsorted)(const View& out, const View& sorted, const View& values, bool right);

  /// out [bags, width] = the sums of the rows weight[indices[i]] * factors[i] for i from begins[bag] up to the next
  /// bag's, or their means; counts [bags] = how many there are. An index that is `padding` counts for nothing, even one
  /// that is out of range. Contiguous, f32 or f64;
  /// indices and begins are i64, and factors may have no data.
  void (*bag_sum)(const View& out, const View& counts, const View& weight, const View& indices, const View& begins,
                  const View& factors, int64_t padding, bool mean);
  /// The same with the largest of each column, the first NaN before all; place (i64) = its i, or -1 with 0 in `out`
  /// where a bag has none.
  void (*bag_max)(const View& out, const View& place, const View& weight, const View& indices, const View& begins,
                  int64_t padding);
  /// out [N, C, count] = the images x [N, C, sizes ...], of two or three spatial dimensions, interpolated linearly at
  /// places [dimensions, N, count], in elements; values outside are 0. Contiguous, f32 or f64, images of fewer than
  /// 2^31 elements.
  void (*sample_linear)(const View& out, const View& x, const View& places);
  /// dx and dplaces may have no data.
  void (*sample_linear_gradient)(const View& dx, const View& dplaces, const View& g, const View& x, const View& places);
  /// Element i of each line of out along `dim` = the sum over t of element at[t][i] of x's line times weights[t][i], as
  /// matrices are multiplied; -1 is no element. at [taps, size of out along dim] is i32 where the others are f32, and
  /// i64 where they are f64. Contiguous.
  void (*resample)(const View& out, const View& x, const View& at, const View& weights, int dim);
  /// counts[x[i]] += 1 for x 1-d, i32 or i64, with no number out of range; counts is contiguous i64. May be null.
  void (*bincount)(const View& counts, const View& x);

  /// out[i] = start + i * step over a contiguous 1-d view.
  void (*arange)(const View& out, Scalar start, Scalar step);
  void (*random)(const View& out, Distribution, PhiloxSeed, Scalar a, Scalar b);

  // Attention on [batch, heads, length, head_dim]; log_sum_exp [batch, heads, queries] in the compute type. The heads
  // of k and v divide those of q: each is that of as many heads of q, side by side. `mask` (additive, compute type,
  // broadcast) has null data where absent, and where there are sequences; gradients go by no blocks.
  void (*attention)(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v,
                    const View& mask, const AttentionPlan&);
  void (*attention_gradient)(const View& dq, const View& dk, const View& dv, const View& g, const View& out,
                             const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
                             const AttentionPlan&);

  /// A recurrent layer of `hidden` units in one direction, all contiguous, f32 or f64. gates [rows, gates * hidden]
  /// contains the contributions of inputs and biases, and receives the gates' values; out [rows, hidden]. state [batch,
  /// hidden] and, for lstm, cell contain the first states and receive the last. kept [rows, hidden] receives values for
  /// the gradient: lstm's cells, gru's W_n h + bias; without data if there are none. weight [gates * hidden, hidden];
  /// bias [hidden] is gru's.
  void (*recurrent)(const View& out, const View& gates, const View& kept, const View& state, const View& cell,
                    const View& weight, const View& bias, Cell, const RecurrentSteps&);
  /// dgates from the gradient g of out, which may have no data. dstate and dcell contain the gradients of the last
  /// states and receive those of the first ones. dkept is the gradient of kept, for gru. first_state and first_cell are
  /// the initial states.
  void (*recurrent_gradient)(const View& dgates, const View& dkept, const View& dstate, const View& dcell,
                             const View& g, const View& out, const View& gates, const View& kept,
                             const View& first_state, const View& first_cell, const View& weight, Cell,
                             const RecurrentSteps&);

  /// Each window of x [planes, depth, rows, columns] pooled; contiguous, f32 or f64. With max the data of `index` (i64)
  /// may be null, else it gets the place of the largest element in its plane: the first of equal ones, the first NaN.
  /// May be null.
  void (*pool)(Pool, const View& out, const View& index, const View& x, const PoolPlan&);
  /// dx from the gradient g of a mean.
  void (*pool_gradient)(const View& dx, const View& g, const PoolPlan&);

  /// f32 and f64; on the CPU and portable devices f16 and bf16, computed in f32 and rounded once.
  void (*optimizer_step)(OptimizerStep, std::span<const OptimizerSlot>, const OptimizerSettings&);

  // 8-bit floats with a scale for each block (ops/quantize.hpp has the rule). Scales are f32; that of an element (i, j)
  // in blocks of rows x columns is at (i / rows, j / columns).
  /// codes, of an 8-bit dtype, and scale from x [m, n], f16, bf16 or f32; or from x's codes times x_scale, rounded to
  /// bf16, where x_scale has data.
  void (*quantize_blocks)(const View& codes, const View& scale, const View& x, const View& x_scale, int64_t rows,
                          int64_t columns, int64_t x_rows, int64_t x_columns, double epsilon, bool power_of_two);
  /// out, f16, bf16 or f32 = codes times scale, rounded once.
  void (*dequantize_blocks)(const View& out, const View& codes, const View& scale, int64_t rows, int64_t columns);
  /// out [m, n], f16, bf16 or f32, = (start +) the sum over blocks of 128 columns of a_scale b_scale (a bᵀ), for codes
  /// a [m, k] and b [n, k], contiguous, in blocks of a_rows and b_rows rows. start, of out's dtype, may be out, and
  /// have no data.
  void (*blockwise_matmul)(const View& out, const View& start, const View& a, const View& a_scale, const View& b,
                           const View& b_scale, int64_t a_rows, int64_t b_rows);
  /// Codes and scales in blocks of 1 x 128 of y = silu(x's left half) * its right half * prob, rounded to x's dtype;
  /// x [m, 2n], f16, bf16 or f32, prob [m] f32 may have no data.
  void (*weighted_swiglu_quantize)(const View& codes, const View& scale, const View& x, const View& prob,
                                   bool power_of_two);
  /// dx [m, 2n], dprob [m] f32 and y [m, n] from g [m, n]; the others are of one dtype: f16, bf16 or f32.
  void (*weighted_swiglu_gradient)(const View& dx, const View& dprob, const View& y, const View& x, const View& g,
                                   const View& prob);
  /// out [m, n] = x [m, k] wᵀ + bias [n], where row i of w is codes[i] * scale[i, j / group] + zero[i, j / group] at
  /// column j. codes are i8 or u8 of k columns or, of 4 `bits`, u8 of pairs, the first in the low half. scale and zero
  /// [n, groups] are f32, contiguous; zero and bias may have no data; 4-bit codes without zero have an offset of 8. x,
  /// bias and out have one dtype: f16, bf16, f32; x is contiguous in rows. k is not 0.
  void (*quantized_matmul)(const View& out, const View& x, const View& codes, const View& scale, const View& zero,
                           const View& bias, int64_t bits, int64_t group);

  /// sum = x + residual (+ bias [n]), rounded to sum's dtype, and out its norm; all [rows, n], the rest as rms_norm.
  void (*rms_norm_residual)(const View& out, const View& sum, const View& rstd, const View& x, const View& residual,
                            const View& bias, const View& weight, double epsilon);

  /// Pairs (a, b) of elements of x's lines along the last dimension, element i and i + n / 2 or, with `interleaved`, 2
  /// i and 2 i + 1, become (a cos_a - b sin_a, b cos_b + a sin_b) or, with `inverse`, (a cos_a + b sin_b, b cos_b - a
  /// sin_a). All views have the sizes of `out`, n is even.
  void (*rotary)(const View& out, const View& x, const View& cos, const View& sin, bool interleaved, bool inverse);

  /// out [m, n] = activation(a [m, k] · b [k, n] + bias [n]), times a · other [k, n] where that has data. b and other
  /// are floats of one dtype, the rest of it or of its compute type; those of 16 bits are accumulated in f32, and a and
  /// the products may be rounded to them. k is not 0.
  void (*activated_product)(const View& out, const View& a, const View& b, const View& other, const View& bias,
                            Activation);
  /// q [batch, length, heads, d], k and v [batch, length, fewer, d] = the columns of x [batch * length, n] · weight [n,
  /// (heads + 2 fewer) d], rounded, those of q and k then as `rotary` rotates them; cos and sin [batch, length, d]. n
  /// is not 0.
  void (*rotated_products)(const View& q, const View& k, const View& v, const View& x, const View& weight,
                           const View& cos, const View& sin, bool interleaved);
};

/// A row for each pointer above, in order: X(kernel, devices, examples, "parameters").
///   devices     everywhere, or cpu_only: the pointer of portable devices is null and the op runs a composite body
///   examples    the place of vmap's examples in the views: a new_dim in front, a dense_dim (the same where contiguous
///               views must stay so) or the first_dim; alone for a kernel that runs once for each example
///   parameters  their names, with marks: out* is written, slots+ are written but for the gradient, and examples share
///               weight=. Plug-ins get numbers by these names.
// clang-format off
#define WEFT_KERNELS(X) \
  X(unary, everywhere, new_dim, "op, out*, a") \
  X(unary_gradient, everywhere, new_dim, "op, out*, g, saved") \
  X(binary, everywhere, new_dim, "op, out*, a, b") \
  X(compare, everywhere, new_dim, "op, out*, a, b") \
  X(ternary, everywhere, new_dim, "op, out*, a, b, c") \
  X(where, everywhere, new_dim, "out*, condition, a, b") \
  X(nan_to_num, everywhere, dense_dim, "out*, x, nan, positive, negative") \
  X(nextafter, everywhere, dense_dim, "out*, a, b") \
  X(copy, everywhere, new_dim, "out*, in") \
  X(fill, everywhere, new_dim, "out*, value") \
  X(reduce, everywhere, new_dim, "reduction, out*, in") \
  X(arg_reduce, everywhere, new_dim, "reduction, out*, in, dim") \
  X(variance, everywhere, new_dim, "out*, in, correction") \
  X(cumsum, everywhere, new_dim, "out*, in, dim, exclusive, reverse") \
  X(fourier, everywhere, new_dim, "out*, in, dim, inverse, factor") \
  X(running_product, everywhere, dense_dim, "out*, x, dim") \
  X(running_log_sum_exp, everywhere, dense_dim, "out*, x, dim") \
  X(running_extreme, everywhere, dense_dim, "out*, index*, x, dim, largest") \
  X(softmax, everywhere, new_dim, "out*, in, dim, logarithm") \
  X(softmax_gradient, everywhere, new_dim, "out*, g, y, dim, logarithm") \
  X(matmul, everywhere, new_dim, "out*, a, b, bias") \
  X(convolution, everywhere, first_dim, "product, out*, a, b=, bias=, steps") \
  X(layer_norm, everywhere, first_dim, "out*, mean*, rstd*, x, weight=, bias=, epsilon") \
  X(layer_norm_gradient, everywhere, first_dim, "dx*, dweight*=, dbias*=, g, x, mean, rstd, weight=") \
  X(rms_norm, everywhere, first_dim, "out*, rstd*, x, weight=, epsilon") \
  X(rms_norm_gradient, everywhere, first_dim, "dx*, dweight*=, g, x, rstd, weight=") \
  X(batch_norm, everywhere, alone, "out*, mean*, variance*, x, weight, bias, epsilon") \
  X(batch_norm_gradient, everywhere, alone, "dx*, dweight*, dbias*, g, x, mean, rstd, weight") \
  X(cross_entropy, everywhere, first_dim, "losses*, log_sum_exp*, logits, targets, ignore_index, label_smoothing") \
  X(cross_entropy_gradient, everywhere, first_dim, "dlogits*, g, logits, log_sum_exp, targets, ignore_index, " \
    "label_smoothing") \
  X(index_select, everywhere, new_dim, "out*, x, dim, index=") \
  X(index_add, everywhere, new_dim, "out*, dim, index=, source") \
  X(gather, everywhere, new_dim, "out*, x, dim, index") \
  X(scatter, everywhere, new_dim, "mode, out*, dim, index, source") \
  X(scatter_copy, everywhere, dense_dim, "mode, out*, x, dim, index, source") \
  X(index_get, everywhere, alone, "out*, base, plan") \
  X(index_put, everywhere, alone, "base*, values, plan, accumulate") \
  X(count_nonzero, everywhere, alone, "x") \
  X(nonzero, everywhere, alone, "out*, x") \
  X(masked_select, everywhere, alone, "out*, x, mask") \
  X(masked_scatter, everywhere, alone, "out*, mask, source") \
  X(sort, everywhere, dense_dim, "out*, order*, x, dim, descending") \
  X(select_rank, everywhere, alone, "order*, x, ranks, dim") \
  X(searchsorted, everywhere, alone, "out*, sorted, values, right") \
  X(bag_sum, everywhere, alone, "out*, counts*, weight, indices, begins, factors, padding, mean") \
  X(bag_max, everywhere, alone, "out*, place*, weight, indices, begins, padding") \
  X(sample_linear, everywhere, alone, "out*, x, places") \
  X(sample_linear_gradient, everywhere, alone, "dx*, dplaces*, g, x, places") \
  X(resample, everywhere, alone, "out*, x, at, weights, dim") \
  X(bincount, everywhere, alone, "counts*, x") \
  X(arange, everywhere, alone, "out*, start, step") \
  X(random, everywhere, alone, "out*, distribution, seed, a, b") \
  X(attention, everywhere, alone, "out*, log_sum_exp*, q, k, v, mask, plan") \
  X(attention_gradient, everywhere, alone, "dq*, dk*, dv*, g, out, log_sum_exp, q, k, v, mask, plan") \
  X(recurrent, everywhere, alone, "out*, gates*, kept*, state*, cell*, weight, bias, cell_type, steps") \
  X(recurrent_gradient, everywhere, alone, "dgates*, dkept*, dstate*, dcell*, g, out, gates, kept, first_state, " \
    "first_cell, weight, cell_type, steps") \
  X(pool, everywhere, first_dim, "mode, out*, index*, x, plan") \
  X(pool_gradient, everywhere, first_dim, "dx*, g, plan") \
  X(optimizer_step, everywhere, alone, "step, slots+, settings") \
  X(quantize_blocks, everywhere, alone, "codes*, scale*, x, x_scale, rows, columns, x_rows, x_columns, epsilon, " \
    "power_of_two") \
  X(dequantize_blocks, everywhere, alone, "out*, codes, scale, rows, columns") \
  X(blockwise_matmul, everywhere, alone, "out*, start, a, a_scale, b, b_scale, a_rows, b_rows") \
  X(weighted_swiglu_quantize, everywhere, alone, "codes*, scale*, x, prob, power_of_two") \
  X(weighted_swiglu_gradient, everywhere, alone, "dx*, dprob*, y*, x, g, prob") \
  X(quantized_matmul, everywhere, alone, "out*, x, codes, scale, zero, bias, bits, group") \
  X(rms_norm_residual, everywhere, alone, "out*, sum*, rstd*, x, residual, bias, weight, epsilon") \
  X(rotary, everywhere, alone, "out*, x, cos, sin, interleaved, inverse") \
  X(activated_product, cpu_only, alone, "out*, a, b, other, bias, activation") \
  X(rotated_products, cpu_only, alone, "q*, k*, v*, x, weight, cos, sin, interleaved")
// clang-format on

/// One row per DeviceType. The CPU's is complete at load time; a device's is filled when the device initialises.
extern KernelTable kernel_tables[device_type_count];

namespace detail {
/// The rows that calls use: those above or, while there is a kernel observer, rows that notify it.
extern constinit Atomic<const KernelTable*> active_tables[device_type_count];
}  // namespace detail

/// The kernels of a device type. Raises nothing: a kernel that the device lacks is null.
inline const KernelTable& kernels(DeviceType type) {
  return *detail::active_tables[static_cast<int>(type)].load(MemoryOrder::acquire);
}
inline const KernelTable& kernels(const View& view) { return kernels(view.layout.device_type); }

/// The CPU's row without observers: for single elements and copies that belong to no op.
inline const KernelTable& host_kernels() { return kernel_tables[static_cast<int>(DeviceType::cpu)]; }

/// For kernels: raises DTypeError naming the kernel, the dtype and the device.
[[noreturn]] void unsupported(const char* kernel, const View& view);
/// For kernels: raises IndexError for `index` outside [0, size) along `dim`, or with `wraps` outside [-size, size).
[[noreturn]] void index_out_of_range(int64_t index, int dim, int64_t size, bool wraps);
/// For losses: raises IndexError for a target outside the classes. A device reports one as an index along the axis
/// `class_axis`.
[[noreturn]] void target_out_of_range(int64_t target, int64_t classes);
constexpr int class_axis = -1;

}  // namespace weft
