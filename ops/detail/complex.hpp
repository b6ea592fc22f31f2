// Complex versions of ops. Not public.
#pragma once

#include "../../backends/functors/lists.hpp"
#include "../../tensor/layout.hpp"
#include "common.hpp"

namespace weft {

namespace detail {
/// A complex tensor as [..., 2] real numbers, others as they are; and [..., 2] as complex. Recorded.
Tensor as_real(const Tensor& x);
Tensor as_complex(const Tensor& pairs);
}  // namespace detail

/// Calls body(out, x) for real tensors, and for complex ones with the views of each component, for linear functions.
template <class Body>
void each_part(const View& out, const View& x, Body&& body) {
  if (WEFT_LIKELY(!is_complex(x.layout.dtype))) return body(out, x);
  for (int part = 0; part < 2; ++part) body(part_view(out, part), part_view(x, part));
}

/// conj(x), and a real x itself.
Tensor conjugate(const Tensor& x);
/// |z|, recorded.
Tensor magnitude(const Tensor& z);

/// Whether complex arithmetic on this device is computed by components, because its kernels take only real numbers.
inline bool computes_by_parts(DType dtype, Device device) {
  return is_complex(dtype) && !device.is_cpu() && device.type != DeviceType::meta;
}
/// The dtype of products of many elements: c128 for c64 on the CPU, because in c64 an overflow on the way gives NaN.
inline DType product_type(DType dtype, Device device) {
  return dtype == DType::c64 && !computes_by_parts(dtype, device) ? DType::c128 : dtype;
}
/// Whether the complex op has no kernel on any device: it is composed of others.
constexpr bool is_composed(BinaryOp op) { return op == BinaryOp::logaddexp || op == BinaryOp::logaddexp2; }
constexpr bool is_composed(UnaryOp op) {
  return op == UnaryOp::sinc || op == UnaryOp::softsign || op == UnaryOp::tanhshrink;
}
/// Sums are not: kernels add the parts.
inline bool computes_by_parts(BinaryOp op, DType dtype, Device device) {
  if (WEFT_LIKELY(!is_complex(dtype))) return false;
  return is_composed(op) || (computes_by_parts(dtype, device) && op != BinaryOp::add && op != BinaryOp::sub);
}
inline bool computes_by_parts(UnaryOp op, DType dtype, Device device) {
  return computes_by_parts(dtype, device) || (is_complex(dtype) && is_composed(op));
}
/// Operands of one complex dtype, recorded. DTypeError for ops that have no such form.
Tensor by_parts(UnaryOp op, const Tensor& z);
Tensor by_parts(BinaryOp op, const Tensor& a, const Tensor& b);

/// The product of complex a and b as matmul's, recorded. Ranks are 1 or more, dtypes are equal.
Tensor complex_product(const Tensor& a, const Tensor& b);

/// DTypeError: the op orders numbers, or has no complex form for another reason.
[[noreturn]] void raise_complex(DType dtype);
/// The same where x is complex.
inline void refuse_complex(const Tensor& x) {
  if (WEFT_UNLIKELY(is_complex(checked(x).dtype()))) raise_complex(x.dtype());
}
/// A gradient in the dtype of its tensor: the real part for real numbers that were promoted to complex.
Tensor in_dtype(const Tensor& gradient, DType dtype);
/// DTypeError where a conversion would lose imaginary parts.
void check_conversion(DType from, DType to);

}  // namespace weft
