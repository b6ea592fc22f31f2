// The kernels: one row for each, from which the table, the names of its pointers, observers, vmap's calls for many
// examples, the calls of plug-ins and the rows of devices are made.
//   WEFT_KERNEL_ROW(result, name, devices, examples, (parameters))
//   devices     everywhere, or cpu_only: the pointer of portable devices is null and the op runs a composite body
//   examples    the place of vmap's examples in the views: a new_dim in front, a dense_dim (the same where contiguous
//               views must stay so) or the first_dim; alone for a kernel that runs once for each example
//   parameters  In, Out, Shared and SharedOut are `const View&`. The kernel writes those with Out, which come first;
//               vmap's examples have one view of those with Shared. Plug-ins get numbers by their names.
//
// A file that defines WEFT_KERNEL_ROW and includes this one gets its rows. dispatch.hpp has the conventions.
#if !defined(WEFT_KERNEL_ROW)
#include "dispatch.hpp"
#else

// Pointwise: floats of 16 bits are computed in f32. A host scalar operand has the compute type of the others.
WEFT_KERNEL_ROW(void, unary, everywhere, new_dim, (UnaryOp op, Out out, In a))
/// out = the formula's gradient for its input, from the incoming gradient g and the saved input or output.
WEFT_KERNEL_ROW(void, unary_gradient, everywhere, new_dim, (UnaryOp op, Out out, In g, In saved))
WEFT_KERNEL_ROW(void, binary, everywhere, new_dim, (BinaryOp op, Out out, In a, In b))
/// `out` is bool; a and b share one dtype. On the CPU `a` may also be integers and `b` floats: those are compared
/// exactly.
WEFT_KERNEL_ROW(void, compare, everywhere, new_dim, (CompareOp op, Out out, In a, In b))
WEFT_KERNEL_ROW(void, ternary, everywhere, new_dim, (TernaryOp op, Out out, In a, In b, In c))
WEFT_KERNEL_ROW(void, where, everywhere, new_dim, (Out out, In condition, In a, In b))
/// x with other numbers for NaN and the infinities; contiguous, f32 or f64.
WEFT_KERNEL_ROW(void, nan_to_num, everywhere, dense_dim, (Out out, In x, double nan, double positive, double negative))
/// The number after a in the direction of b; contiguous, f32 or f64.
WEFT_KERNEL_ROW(void, nextafter, everywhere, dense_dim, (Out out, In a, In b))
/// Converts between any two dtypes, bool, storage-only and 8-bit ones included; float to int truncates toward zero.
WEFT_KERNEL_ROW(void, copy, everywhere, new_dim, (Out out, In in))
WEFT_KERNEL_ROW(void, fill, everywhere, new_dim, (Out out, Scalar value))

// Reductions. `out` has the rank of `in`; a reduced dimension has size 1. Sums of 16-bit floats accumulate in f32.
// sum, prod: out dtype = in's (or i64 for integers and bool, or a wider float). max, min: NaN wins. any, all: out is
// bool.
WEFT_KERNEL_ROW(void, reduce, everywhere, new_dim, (Reduction reduction, Out out, In in))
/// Index of the first extreme along `dim` (NaN wins) to `out` (i64, that dim has size 1).
WEFT_KERNEL_ROW(void, arg_reduce, everywhere, new_dim, (ArgReduction reduction, Out out, In in, int dim))
/// Variance with divisor max(0, n - correction), computed in two passes or by Welford; layouts as `reduce`.
WEFT_KERNEL_ROW(void, variance, everywhere, new_dim, (Out out, In in, double correction))
WEFT_KERNEL_ROW(void, cumsum, everywhere, new_dim, (Out out, In in, int dim, bool exclusive, bool reverse))
/// The discrete Fourier transform along `dim`, times `factor`: of complex numbers, or where `in` is real the first
/// n / 2 + 1 numbers of it, or where `out` is real the inverse of that. f32 and f64; `inverse` of complex ones alone.
WEFT_KERNEL_ROW(void, fourier, everywhere, new_dim, (Out out, In in, int dim, bool inverse, double factor))
/// Prefix products along `dim`. Those of f32 are carried in double, integers wrap.
WEFT_KERNEL_ROW(void, running_product, everywhere, dense_dim, (Out out, In x, int dim))
/// log of the prefix sums of exp(x) along `dim`, carried in double; contiguous, f32 or f64.
WEFT_KERNEL_ROW(void, running_log_sum_exp, everywhere, dense_dim, (Out out, In x, int dim))
/// The extreme so far along `dim`, and the last index of it (i64); NaN wins. Contiguous; f32, f64 or integers.
WEFT_KERNEL_ROW(void, running_extreme, everywhere, dense_dim, (Out out, Out index, In x, int dim, bool largest))

// Rows along one dimension.
WEFT_KERNEL_ROW(void, softmax, everywhere, new_dim, (Out out, In in, int dim, bool logarithm))
WEFT_KERNEL_ROW(void, softmax_gradient, everywhere, new_dim, (Out out, In g, In y, int dim, bool logarithm))

/// out[..., M, N] = a[..., M, K] · b[..., K, N] (+ bias broadcast to out, bias.data may be null); equal batch sizes
/// or stride 0. f16 and bf16 accumulate in f32. K = 0 gives zeros (or the bias).
WEFT_KERNEL_ROW(void, matmul, everywhere, new_dim, (Out out, In a, In b, In bias))

/// Data [batch, groups * channels, spatial ...], weights [groups * outputs, channels, kernel ...], both contiguous,
/// with three spatial dimensions, in f32 or f64. `a` and `b` are the operands named above, in that order; `bias`
/// [groups * outputs] is of the forward product alone, and its data may be null.
WEFT_KERNEL_ROW(void, convolution, everywhere, first_dim,
                (Convolution product, Out out, In a, Shared b, Shared bias, const ConvolutionSteps& steps))

// Norms over the last dimension of 2-d views [rows, n]; weight and bias [n], data null where absent.
// mean and rstd are [rows] in the compute type.
WEFT_KERNEL_ROW(void, layer_norm, everywhere, first_dim,
                (Out out, Out mean, Out rstd, In x, Shared weight, Shared bias, double epsilon))
/// Any of dx, dweight, dbias may have null data. dweight and dbias are overwritten.
WEFT_KERNEL_ROW(void, layer_norm_gradient, everywhere, first_dim,
                (Out dx, SharedOut dweight, SharedOut dbias, In g, In x, In mean, In rstd, Shared weight))
WEFT_KERNEL_ROW(void, rms_norm, everywhere, first_dim, (Out out, Out rstd, In x, Shared weight, double epsilon))
WEFT_KERNEL_ROW(void, rms_norm_gradient, everywhere, first_dim,
                (Out dx, SharedOut dweight, In g, In x, In rstd, Shared weight))

/// Over the batch and the length of x [batch, channels, length]. The rest is [channels], contiguous and in the
/// compute type; weight and bias may have no data. `variance` is the biased one.
WEFT_KERNEL_ROW(void, batch_norm, everywhere, alone,
                (Out out, Out mean, Out variance, In x, In weight, In bias, double epsilon))
/// Any of dx, dweight, dbias may have null data.
WEFT_KERNEL_ROW(void, batch_norm_gradient, everywhere, alone,
                (Out dx, Out dweight, Out dbias, In g, In x, In mean, In rstd, In weight))

/// losses [rows] and log_sum_exp [rows] in the compute type from logits [rows, classes] and targets [rows] i64. Rows
/// with the target `ignore_index` give 0. A target outside [0, classes) raises IndexError.
WEFT_KERNEL_ROW(void, cross_entropy, everywhere, first_dim,
                (Out losses, Out log_sum_exp, In logits, In targets, int64_t ignore_index, double label_smoothing))
/// dlogits = (softmax - onehot) * g per row; g [rows] may have stride 0.
WEFT_KERNEL_ROW(void, cross_entropy_gradient, everywhere, first_dim,
                (Out dlogits, In g, In logits, In log_sum_exp, In targets, int64_t ignore_index,
                 double label_smoothing))

// Indexing. index dtypes: i32 or i64. Out of range: IndexError, before old data is written. Negative indices are out
// of range, but count from the end in index_get and index_put where the plan says so.
/// out[..., j, ...] = x[..., index[j], ...] along dim; index is 1-d.
WEFT_KERNEL_ROW(void, index_select, everywhere, new_dim, (Out out, In x, int dim, Shared index))
/// out[..., index[j], ...] += source[..., j, ...]; duplicates add, in order of j (deterministic).
WEFT_KERNEL_ROW(void, index_add, everywhere, new_dim, (Out out, int dim, Shared index, In source))
/// out[i][j] = x[index[i][j]][j] and so on, as torch.gather; index has the shape of out.
WEFT_KERNEL_ROW(void, gather, everywhere, new_dim, (Out out, In x, int dim, In index))
/// out[index[i][j]][j] is combined with source[i][j], and so on, in row-major order of the indices.
WEFT_KERNEL_ROW(void, scatter, everywhere, new_dim, (Scatter mode, Out out, int dim, In index, In source))
/// scatter into a copy of x: out, dense and fresh, is x with source combined into it. May be null.
WEFT_KERNEL_ROW(void, scatter_copy, everywhere, dense_dim, (Scatter mode, Out out, In x, int dim, In index, In source))
/// out[s] = base[s + the indices' offsets] for every position s of the selection; any dtype.
WEFT_KERNEL_ROW(void, index_get, everywhere, alone, (Out out, In base, const IndexPlan& plan))
/// base[s + the indices' offsets] = values[s], the last in row-major order winning; with `accumulate` every one adds
/// (bool: or), 16-bit floats by a sum in f32 that is rounded once. `values` never overlaps `base`.
WEFT_KERNEL_ROW(void, index_put, everywhere, alone, (Out base, In values, const IndexPlan& plan, bool accumulate))
/// The number of elements that are not 0; waits for a device.
WEFT_KERNEL_ROW(int64_t, count_nonzero, everywhere, alone, (In x))
/// Coordinates of the elements that are not 0, in row-major order: out [count, rank of x] i64, strided in any way.
WEFT_KERNEL_ROW(void, nonzero, everywhere, alone, (Out out, In x))
/// The elements of x where mask (bool, of x's sizes) holds, in row-major order; out [count] is contiguous.
WEFT_KERNEL_ROW(void, masked_select, everywhere, alone, (Out out, In x, In mask))
/// Element i of source (1-d, contiguous) to the i-th place of out where mask holds.
WEFT_KERNEL_ROW(void, masked_scatter, everywhere, alone, (Out out, In mask, In source))
/// Each line along `dim` in ascending order (or descending), NaN last (first); `order` (i64) is the permutation.
/// Equal elements keep their order. The data of `out` or `order` may be null. On the CPU they may be shorter than x
/// along `dim` and get the first of each line.
WEFT_KERNEL_ROW(void, sort, everywhere, dense_dim, (Out out, Out order, In x, int dim, bool descending))
/// order (i64) = the position, in the line of x along `dim`, of the element that would be at the rank if the line
/// were sorted. ranks (i64) are of order's shape, from 0 on.
WEFT_KERNEL_ROW(void, select_rank, everywhere, alone, (Out order, In x, In ranks, int dim))
/// out (i64) = how many elements of the sorted line of `sorted` along the last dimension are below value (or not
/// above, with `right`). sorted is 1-d, or has the outer sizes of values.
WEFT_KERNEL_ROW(void, searchsorted, everywhere, alone, (Out out, In sorted, In values, bool right))

/// out [bags, width] = the sums of the rows weight[indices[i]] * factors[i] for i from begins[bag] up to the next
/// bag's, or their means; counts [bags] = how many there are. An index that is `padding` counts for nothing, even one
/// that is out of range. Contiguous, f32 or f64;
/// indices and begins are i64, and factors may have no data.
WEFT_KERNEL_ROW(void, bag_sum, everywhere, alone,
                (Out out, Out counts, In weight, In indices, In begins, In factors, int64_t padding, bool mean))
/// The same with the largest of each column, the first NaN before all; place (i64) = its i, or -1 with 0 in `out`
/// where a bag has none.
WEFT_KERNEL_ROW(void, bag_max, everywhere, alone,
                (Out out, Out place, In weight, In indices, In begins, int64_t padding))
/// out [N, C, count] = the images x [N, C, sizes ...], of two or three spatial dimensions, interpolated linearly at
/// places [dimensions, N, count], in elements; values outside are 0. Contiguous, f32 or f64, images of fewer than
/// 2^31 elements.
WEFT_KERNEL_ROW(void, sample_linear, everywhere, alone, (Out out, In x, In places))
/// dx and dplaces may have no data.
WEFT_KERNEL_ROW(void, sample_linear_gradient, everywhere, alone, (Out dx, Out dplaces, In g, In x, In places))
/// Element i of each line of out along `dim` = the sum over t of element at[t][i] of x's line times weights[t][i], as
/// matrices are multiplied; -1 is no element. at [taps, size of out along dim] is i32 where the others are f32, and
/// i64 where they are f64. Contiguous.
WEFT_KERNEL_ROW(void, resample, everywhere, alone, (Out out, In x, In at, In weights, int dim))
/// counts[x[i]] += 1 for x 1-d, i32 or i64, with no number out of range; counts is contiguous i64. May be null.
WEFT_KERNEL_ROW(void, bincount, everywhere, alone, (Out counts, In x))

/// out[i] = start + i * step over a contiguous 1-d view.
WEFT_KERNEL_ROW(void, arange, everywhere, alone, (Out out, Scalar start, Scalar step))
WEFT_KERNEL_ROW(void, random, everywhere, alone,
                (Out out, Distribution distribution, PhiloxSeed seed, Scalar a, Scalar b))

// Attention on [batch, heads, length, head_dim]; log_sum_exp [batch, heads, queries] in the compute type. The heads
// of k and v divide those of q: each is that of as many heads of q, side by side. `mask` (additive, compute type,
// broadcast) has null data where absent, and where there are sequences; gradients go by no blocks.
WEFT_KERNEL_ROW(void, attention, everywhere, alone,
                (Out out, Out log_sum_exp, In q, In k, In v, In mask, const AttentionPlan& plan))
WEFT_KERNEL_ROW(void, attention_gradient, everywhere, alone,
                (Out dq, Out dk, Out dv, In g, In out, In log_sum_exp, In q, In k, In v, In mask,
                 const AttentionPlan& plan))

/// A recurrent layer of `hidden` units in one direction, all contiguous, f32 or f64. gates [rows, gates * hidden]
/// contains the contributions of inputs and biases, and receives the gates' values; out [rows, hidden]. state [batch,
/// hidden] and, for lstm, cell contain the first states and receive the last. kept [rows, hidden] receives values for
/// the gradient: lstm's cells, gru's W_n h + bias; without data if there are none. weight [gates * hidden, hidden];
/// bias [hidden] is gru's.
WEFT_KERNEL_ROW(void, recurrent, everywhere, alone,
                (Out out, Out gates, Out kept, Out state, Out cell, In weight, In bias, Cell cell_type,
                 const RecurrentSteps& steps))
/// dgates from the gradient g of out, which may have no data. dstate and dcell contain the gradients of the last
/// states and receive those of the first ones. dkept is the gradient of kept, for gru. first_state and first_cell are
/// the initial states.
WEFT_KERNEL_ROW(void, recurrent_gradient, everywhere, alone,
                (Out dgates, Out dkept, Out dstate, Out dcell, In g, In out, In gates, In kept, In first_state,
                 In first_cell, In weight, Cell cell_type, const RecurrentSteps& steps))

/// Each window of x [planes, depth, rows, columns] pooled; contiguous, f32 or f64. With max the data of `index` (i64)
/// may be null, else it gets the place of the largest element in its plane: the first of equal ones, the first NaN.
/// May be null.
WEFT_KERNEL_ROW(void, pool, everywhere, first_dim, (Pool mode, Out out, Out index, In x, const PoolPlan& plan))
/// dx from the gradient g of a mean.
WEFT_KERNEL_ROW(void, pool_gradient, everywhere, first_dim, (Out dx, In g, const PoolPlan& plan))

/// f32 and f64; on the CPU and portable devices f16 and bf16, computed in f32 and rounded once.
WEFT_KERNEL_ROW(void, optimizer_step, everywhere, alone,
                (OptimizerStep step, std::span<const OptimizerSlot> slots, const OptimizerSettings& settings))

// 8-bit floats with a scale for each block (ops/quantize.hpp has the rule). Scales are f32; that of an element (i, j)
// in blocks of rows x columns is at (i / rows, j / columns).
/// codes, of an 8-bit dtype, and scale from x [m, n], f16, bf16 or f32; or from x's codes times x_scale, rounded to
/// bf16, where x_scale has data.
WEFT_KERNEL_ROW(void, quantize_blocks, everywhere, alone,
                (Out codes, Out scale, In x, In x_scale, int64_t rows, int64_t columns, int64_t x_rows,
                 int64_t x_columns, double epsilon, bool power_of_two))
/// out, f16, bf16 or f32 = codes times scale, rounded once.
WEFT_KERNEL_ROW(void, dequantize_blocks, everywhere, alone,
                (Out out, In codes, In scale, int64_t rows, int64_t columns))
/// out [m, n], f16, bf16 or f32, = (start +) the sum over blocks of 128 columns of a_scale b_scale (a bᵀ), for codes
/// a [m, k] and b [n, k], contiguous, in blocks of a_rows and b_rows rows. start, of out's dtype, may be out, and
/// have no data.
WEFT_KERNEL_ROW(void, blockwise_matmul, everywhere, alone,
                (Out out, In start, In a, In a_scale, In b, In b_scale, int64_t a_rows, int64_t b_rows))
/// Codes and scales in blocks of 1 x 128 of y = silu(x's left half) * its right half * prob, rounded to x's dtype;
/// x [m, 2n], f16, bf16 or f32, prob [m] f32 may have no data.
WEFT_KERNEL_ROW(void, weighted_swiglu_quantize, everywhere, alone,
                (Out codes, Out scale, In x, In prob, bool power_of_two))
/// dx [m, 2n], dprob [m] f32 and y [m, n] from g [m, n]; the others are of one dtype: f16, bf16 or f32.
WEFT_KERNEL_ROW(void, weighted_swiglu_gradient, everywhere, alone, (Out dx, Out dprob, Out y, In x, In g, In prob))
/// out [m, n] = x [m, k] wᵀ + bias [n], where row i of w is codes[i] * scale[i, j / group] + zero[i, j / group] at
/// column j. codes are i8 or u8 of k columns or, of 4 `bits`, u8 of pairs, the first in the low half. scale and zero
/// [n, groups] are f32, contiguous; zero and bias may have no data; 4-bit codes without zero have an offset of 8. x,
/// bias and out have one dtype: f16, bf16, f32; x is contiguous in rows. k is not 0.
WEFT_KERNEL_ROW(void, quantized_matmul, everywhere, alone,
                (Out out, In x, In codes, In scale, In zero, In bias, int64_t bits, int64_t group))

/// sum = x + residual (+ bias [n]), rounded to sum's dtype, and out its norm; all [rows, n], the rest as rms_norm.
WEFT_KERNEL_ROW(void, rms_norm_residual, everywhere, alone,
                (Out out, Out sum, Out rstd, In x, In residual, In bias, In weight, double epsilon))

/// Pairs (a, b) of elements of x's lines along the last dimension, element i and i + n / 2 or, with `interleaved`, 2
/// i and 2 i + 1, become (a cos_a - b sin_a, b cos_b + a sin_b) or, with `inverse`, (a cos_a + b sin_b, b cos_b - a
/// sin_a). All views have the sizes of `out`, n is even.
WEFT_KERNEL_ROW(void, rotary, everywhere, alone, (Out out, In x, In cos, In sin, bool interleaved, bool inverse))

/// out [m, n] = activation(a [m, k] · b [k, n] + bias [n]), times a · other [k, n] where that has data. b and other
/// are floats of one dtype, the rest of it or of its compute type; those of 16 bits are accumulated in f32, and a and
/// the products may be rounded to them. k is not 0.
WEFT_KERNEL_ROW(void, activated_product, cpu_only, alone,
                (Out out, In a, In b, In other, In bias, Activation activation))
/// q [batch, length, heads, d], k and v [batch, length, fewer, d] = the columns of x [batch * length, n] · weight [n,
/// (heads + 2 fewer) d], rounded, those of q and k then as `rotary` rotates them; cos and sin [batch, length, d]. n
/// is not 0.
WEFT_KERNEL_ROW(void, rotated_products, cpu_only, alone,
                (Out q, Out k, Out v, In x, In weight, In cos, In sin, bool interleaved))

#undef WEFT_KERNEL_ROW
#endif
