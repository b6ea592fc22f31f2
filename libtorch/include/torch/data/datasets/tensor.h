// The rows of a tensor.
#pragma once

#include <torch/data/datasets/base.h>

namespace torch::data::datasets {

struct TensorDataset : public Dataset<TensorDataset, TensorExample> {
  /// Stacks the tensors.
  explicit TensorDataset(const std::vector<Tensor>& tensors);
  explicit TensorDataset(Tensor tensor) : tensor(std::move(tensor)) {}
  TensorExample get(size_t index) override { return Tensor(tensor[static_cast<int64_t>(index)]); }
  optional<size_t> size() const override { return static_cast<size_t>(tensor.size(0)); }

  Tensor tensor;
};

}  // namespace torch::data::datasets
