// Bringing the operands of a pointwise op together: common dtype, device and shape. Not public.
#pragma once

#include "common.hpp"
#include "../../backends/functors/lists.hpp"

namespace weft {

/// The common type of any number of operands.
DType result_type(std::span<const TensorImpl* const> operands);

/// Operands of one op, cast and broadcast. Casts are recorded, so the op's edges go to `operands`.
template <int n>
struct Prepared {
  Tensor operands[n];
  View views[n];
  /// Values of scalar operands in the compute type.
  alignas(max_item) unsigned char scalars[n][max_item];
  Dims shape;
  DType dtype;
  Device device;
  bool wrapped = true;
};

/// Raises ShapeError, DeviceError or DTypeError. Floating kinds turn integers into f32; `dtype`, where given, overrides
/// the promoted type.
template <int n>
void prepare(Prepared<n>& p, const Operand* const (&operands)[n], PointwiseKind kind, std::optional<DType> dtype = {});
extern template void prepare<2>(Prepared<2>&, const Operand* const (&)[2], PointwiseKind, std::optional<DType>);
extern template void prepare<3>(Prepared<3>&, const Operand* const (&)[3], PointwiseKind, std::optional<DType>);

/// A gradient in the shape, dtype and on the device of `input`.
Tensor unbroadcast(Tensor&& gradient, std::span<const int64_t> sizes, DType dtype, Device device);

/// x times a number in x's dtype; x itself where the number is 1. DTypeError for a fraction among integers.
Tensor times(const Tensor& x, Scalar factor);

/// A view of one element in host memory for a kernel whose operands have `dtype`; `buffer` has max_item bytes.
View scalar_view(const TensorImpl* scalar, DType dtype, unsigned char* buffer);

/// What follows 1 in f16, bf16, f32 or f64, less 1.
double machine_epsilon(DType t);
/// The largest number of a floating-point dtype.
double largest(DType t);

/// The operand itself, or the 8-bit floats, which are computed with nowhere, in f32.
Tensor computable(const Operand& x);

}  // namespace weft
