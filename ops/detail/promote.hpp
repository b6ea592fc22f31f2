// Bringing the operands of a pointwise op together: common dtype, device and shape. Not public.
#pragma once

#include <cstddef>
#include <cstring>

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

/// dtype, rank, contiguity and device of a tensor in one number.
inline uint64_t kind_of(const Layout& layout) {
  uint64_t word;
  static_assert(offsetof(Layout, numel) == sizeof word);
  std::memcpy(&word, &layout, sizeof word);
  return word;
}
/// Whether two tensors, neither of them a number, are contiguous and of one dtype, shape and device.
inline bool same_plain(const TensorImpl* x, const TensorImpl* y) {
  const Layout& a = x->view.layout;
  const Layout& b = y->view.layout;
  if (kind_of(a) != kind_of(b) || !a.contiguous || (x->wrapped_number | y->wrapped_number)) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.sizes[i] != b.sizes[i]) return false;
  }
  return true;
}

/// A gradient in the shape, dtype and on the device of `input`.
Tensor unbroadcast(Tensor&& gradient, std::span<const int64_t> sizes, DType dtype, Device device);

/// A factor as addmm and its like have it: among integers its fraction is cut, as in PyTorch.
inline Scalar whole_among_integers(Scalar factor, DType dtype) {
  return factor.is_floating() && !is_inexact(dtype) ? Scalar(factor.to<int64_t>()) : factor;
}
/// x times a number in x's dtype; x itself where the number is 1. Errors as check_factor.
Tensor times(const Tensor& x, Scalar factor);
/// DTypeError for a fraction among integers, and for a complex number among real ones.
void check_factor(Scalar factor, DType dtype);

/// clip by tensors or wrapped numbers; an undefined bound is none.
Tensor clip_by(const Operand& x, const Tensor& low, const Tensor& high);
const Tensor& clip_by_(const Tensor& x, const Tensor& low, const Tensor& high);

/// A view of one element in host memory for a kernel with operands of `dtype`; `buffer` has max_item bytes.
View scalar_view(const TensorImpl* scalar, DType dtype, unsigned char* buffer);

/// Machine epsilon of f16, bf16, f32 or f64.
double machine_epsilon(DType t);
/// The largest number of a floating-point dtype.
double largest(DType t);

/// The operand itself, or the 8-bit floats, which are computed with nowhere, in f32.
Tensor computable(const Operand& x);

}  // namespace weft
