// Matrix products. All operands share one dtype (not bool) and one device: DTypeError and DeviceError otherwise; sizes
// that do not fit are a ShapeError. f16 and bf16 accumulate in f32. Results are new contiguous tensors. Operands may be
// strided in any way: transposed views are multiplied as they are, never copied first.
//
// Gradients have exactly the shape of their operand, and are differentiable again, to any order.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// The matrix product [..., m, k] x [..., k, n] -> [..., m, n]; the leading (batch) dimensions broadcast. A 1-d operand
/// stands for a row on the left and a column on the right, and that dimension is absent from the result.
WEFT_API Tensor matmul(const Tensor& a, const Tensor& b, Location where = {});
/// matmul into an existing tensor of the result's shape, dtype and device; not recorded.
WEFT_API const Tensor& matmul_out(const Tensor& out, const Tensor& a, const Tensor& b, Location where = {});

/// [m, k] x [k, n] -> [m, n]
WEFT_API Tensor mm(const Tensor& a, const Tensor& b, Location where = {});
WEFT_API const Tensor& mm_out(const Tensor& out, const Tensor& a, const Tensor& b, Location where = {});
/// [b, m, k] x [b, k, n] -> [b, m, n]; the batch sizes must be equal.
WEFT_API Tensor bmm(const Tensor& a, const Tensor& b, Location where = {});
/// [m, k] x [k] -> [m]
WEFT_API Tensor mv(const Tensor& a, const Tensor& b, Location where = {});
/// [n] x [n] -> a 0-d tensor.
WEFT_API Tensor dot(const Tensor& a, const Tensor& b, Location where = {});
/// [m] x [n] -> [m, n]: every product of an element of a and one of b.
WEFT_API Tensor outer(const Tensor& a, const Tensor& b, Location where = {});
/// beta * input + alpha * (a x b) for matrices a and b; input broadcasts to [m, n]. With a beta of 0
/// input is not read.
WEFT_API Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
                      Location where = {});

/// x [..., in] times the transpose of weight [out, in], plus bias [out] where given -> [..., out].
WEFT_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Location where = {});

}  // namespace weft
