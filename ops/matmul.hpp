// Matrix products. All operands share one dtype (not bool or an 8-bit float) and one device: DTypeError and DeviceError
// otherwise; ShapeError where ranks or sizes do not fit. f16 and bf16 accumulate in f32. Results are new contiguous
// tensors. Operands may have any strides: transposed views are multiplied without a copy. Differentiable to any order.
#pragma once

#include "../backends/activation.hpp"
#include "../tensor/index.hpp"

namespace weft {

/// The matrix product [..., m, k] x [..., k, n] -> [..., m, n]; the leading (batch) dimensions broadcast. A 1-d operand
/// is a row on the left and a column on the right; the result lacks that dimension. Raises ShapeError for a 0-d
/// operand, and if inner sizes differ or batch sizes do not broadcast.
[[nodiscard]] WEFT_API Tensor matmul(const Tensor& a, const Tensor& b, Location where = {});
/// matmul into `out`, which is returned. ShapeError, DTypeError or DeviceError unless it has the result's shape, dtype
/// and device, AutogradError where recording is on and a tensor requires a gradient, ValueError where elements of out
/// overlap.
WEFT_API const Tensor& matmul_out(const Tensor& out, const Tensor& a, const Tensor& b, Location where = {});

/// [m, k] x [k, n] -> [m, n]. Raises ShapeError for other ranks, as the next three do.
[[nodiscard]] WEFT_API Tensor mm(const Tensor& a, const Tensor& b, Location where = {});
WEFT_API const Tensor& mm_out(const Tensor& out, const Tensor& a, const Tensor& b, Location where = {});
/// [b, m, k] x [b, k, n] -> [b, m, n]; the batch sizes must be equal.
[[nodiscard]] WEFT_API Tensor bmm(const Tensor& a, const Tensor& b, Location where = {});
/// [m, k] x [k] -> [m].
[[nodiscard]] WEFT_API Tensor mv(const Tensor& a, const Tensor& b, Location where = {});
/// [n] x [n] -> a 0-d tensor.
[[nodiscard]] WEFT_API Tensor dot(const Tensor& a, const Tensor& b, Location where = {});
/// [m] x [n] -> [m, n]: every product of an element of a and one of b. Dtypes promote, and bool is allowed. Raises
/// ShapeError unless both are 1-d.
[[nodiscard]] WEFT_API Tensor outer(const Tensor& a, const Tensor& b, Location where = {});
/// beta * input + alpha * (a x b) for matrices a and b; input broadcasts to [m, n] and is not read where beta is 0.
/// Raises ShapeError if input does not broadcast.
[[nodiscard]] WEFT_API Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
                                    Scalar alpha = 1, Location where = {});

/// Sums of products over the last `count` dimensions of a and the first of b, in their order: a's others, then b's.
/// ValueError for a negative count, ShapeError where either has fewer dimensions.
[[nodiscard]] WEFT_API Tensor tensordot(const Tensor& a, const Tensor& b, int64_t count = 2, Location where = {});
/// Over dims_a[i] of a and dims_b[i] of b, of equal sizes or of size 1, which is repeated. ValueError unless both name
/// as many dimensions, each once.
[[nodiscard]] WEFT_API Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& dims_a, const Dims& dims_b,
                                        Location where = {});

/// x [..., in] times the transpose of weight [out, in], plus bias [out] where given -> [..., out]. A weight [in], with
/// a bias of one element, gives [...]. Raises ShapeError for a 0-d x, and for a weight or bias that does not fit.
[[nodiscard]] WEFT_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                     Location where = {});
/// activation(linear(x, weight, bias)), activated where the product is still in the cache if that needs no more memory:
/// where no gradient is recorded, and for relu, which keeps its result alone. WEFT_FUSED_LINEAR=0 switches it off.
/// ValueError for a number that is no activation.
[[nodiscard]] WEFT_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                                     Location where = {});

}  // namespace weft
