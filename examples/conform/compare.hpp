// Comparing tensors of a device with the CPU's.
#pragma once

#include <string>

#include <weft/tensor/tensor.hpp>

namespace weft::conform {

/// The largest difference that passes: absolute + relative * |expected|.
struct Tolerance {
  double relative = 0, absolute = 0;
  Tolerance operator*(double factor) const { return {relative * factor, absolute * factor}; }
};
/// What rounding may differ in, for ops of floats: docs/devices.md, "Conformance". Integers and bools are exact.
Tolerance tolerance_of(DType dtype);

/// What is expected and what came, where they differ; both empty where they agree. NaN equals NaN.
struct Difference {
  std::string expected, came;
  explicit operator bool() const { return !expected.empty(); }
};
/// Shape, dtype, device and elements of `came`, which lies on `device`, against `expected` on the CPU.
Difference difference(const Tensor& came, const Tensor& expected, Device device, Tolerance tolerance);
/// Shape, dtype and device alone.
Difference difference_of_kind(const Tensor& came, const Tensor& expected, Device device);
/// The bytes of the elements, of two tensors anywhere.
bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace weft::conform
