// Tensors and their ops.
#pragma once

#include <ATen/Creation.h>
#include <ATen/Operations.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIndexing.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <c10/util/complex.h>
#include <c10/util/irange.h>
#include <c10/util/variant.h>

namespace at {

/// Seeds the random numbers of all devices.
inline void manual_seed(uint64_t seed) { weft::manual_seed(seed); }
inline bool hasCUDA() { return false; }
inline bool hasMKL() { return false; }
inline bool hasLAPACK() { return true; }
inline bool hasMAGMA() { return false; }

enum class Backend { CPU, CUDA, SparseCPU, SparseCUDA, Undefined };
inline TensorOptions getDeprecatedTypeProperties(Backend backend, ScalarType type) {
  const bool sparse = backend == Backend::SparseCPU || backend == Backend::SparseCUDA;
  const bool cuda = backend == Backend::CUDA || backend == Backend::SparseCUDA;
  return TensorOptions(type).device(cuda ? kCUDA : kCPU).layout(sparse ? kSparse : kStrided);
}
inline TensorOptions CPU(ScalarType type) { return TensorOptions(type); }
inline TensorOptions CUDA(ScalarType type) { return TensorOptions(type).device(kCUDA); }

namespace native {
inline bool is_nonzero(const Tensor& self) { return self.is_nonzero(); }
}  // namespace native

}  // namespace at
