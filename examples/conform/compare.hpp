// Compares tensors of a device with those of the CPU.
#pragma once

#include <string>

#include <weft/tensor/tensor.hpp>

namespace weft::conform {

/// The largest accepted difference: absolute + relative * |expected|.
struct Tolerance {
  double relative = 0, absolute = 0;
  Tolerance operator*(double factor) const { return {relative * factor, absolute * factor}; }
};
/// Accepted rounding error of floating-point ops: docs/devices.md, "Conformance". Integers and bools are exact.
Tolerance tolerance_of(DType dtype);

/// The expected and actual result if they differ; both empty if they match. NaN equals NaN.
struct Difference {
  std::string expected, came;
  explicit operator bool() const { return !expected.empty(); }
};
/// Compares shape, dtype, device and elements of `came`, on `device`, with `expected` on the CPU.
Difference difference(const Tensor& came, const Tensor& expected, Device device, Tolerance tolerance);
/// Compares only shape, dtype and device.
Difference difference_of_kind(const Tensor& came, const Tensor& expected, Device device);
/// Compares the bytes of the elements of two tensors on any devices.
bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace weft::conform
