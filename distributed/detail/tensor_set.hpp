// Sets of tensors by identity, not by value.
#pragma once

#include <span>
#include <unordered_set>

#include "../../tensor/tensor.hpp"

namespace weft::distributed::detail {

class TensorSet {
 public:
  TensorSet() = default;
  explicit TensorSet(std::span<const Tensor> tensors) {
    for (const Tensor& t : tensors) insert(t);
  }
  /// Returns false if the tensor was already in the set.
  bool insert(const Tensor& tensor) { return heads_.insert(tensor.impl()).second; }
  bool contains(const Tensor& tensor) const { return heads_.contains(tensor.impl()); }

 private:
  std::unordered_set<const TensorImpl*> heads_;
};

}  // namespace weft::distributed::detail
