// Tensors as one that travels.
#pragma once

#include <span>
#include <vector>

#include "../../tensor/tensor.hpp"
#include "../group.hpp"

namespace weft::distributed::detail {

/// All elements one after the other, 1-d. The tensors have one dtype and device; there is one at least.
Tensor flattened(std::span<const Tensor> tensors);
/// Views of `flat` with the shapes of these tensors.
std::vector<Tensor> split_like(const Tensor& flat, std::span<const Tensor> tensors);

/// ValueError, on every rank, unless all have tensors of the same shapes and dtypes.
void check_alike(std::span<const Tensor> tensors, const Group& group);
/// Every rank's become the first one's.
void make_alike(std::span<const Tensor> tensors, const Group& group);

}  // namespace weft::distributed::detail
