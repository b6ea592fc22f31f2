// torch::tensor; the other functions that create tensors are those of namespace at.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/detail/TensorDataContainer.h>

namespace torch {

/// `tensor({{1, 2}, {3, 4}})`. Integers give int64, floating-point numbers the default dtype.
inline at::Tensor tensor(const detail::TensorDataContainer& data, const at::TensorOptions& options = {},
                         at::Location where = {}) {
  return data.convert_to_tensor(options, where);
}

}  // namespace torch
