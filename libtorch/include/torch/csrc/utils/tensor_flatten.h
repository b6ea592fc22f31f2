// Many tensors as one, and back.
#pragma once

#include <ATen/ATen.h>

namespace torch::utils {

/// The elements of all tensors in one dimension.
inline at::Tensor flatten_dense_tensors(at::TensorList tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.contiguous().view({-1}));
  return at::cat(flat);
}
/// Views of `flat` with the shapes of `tensors`. Tensors without elements get memory of their own.
inline std::vector<at::Tensor> unflatten_dense_tensors(const at::Tensor& flat, at::TensorList tensors) {
  std::vector<at::Tensor> views;
  int64_t first = 0;
  for (const at::Tensor& tensor : tensors) {
    const int64_t count = tensor.numel();
    if (count == 0) views.push_back(at::empty(tensor.shape(), flat.options()));
    else views.push_back(flat.narrow(0, first, count).view(tensor.shape()));
    first += count;
  }
  return views;
}

}  // namespace torch::utils
