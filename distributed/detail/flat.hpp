// Packs several tensors into one for communication.
#pragma once

#include <span>
#include <vector>

#include "../../tensor/tensor.hpp"
#include "../group.hpp"

namespace weft::distributed::detail {

/// All elements one after the other, 1-d. The tensors have one dtype and device, and there is at least one.
Tensor flattened(std::span<const Tensor> tensors);
/// Views of `flat` with the shapes of these tensors.
std::vector<Tensor> split_like(const Tensor& flat, std::span<const Tensor> tensors);

/// Raises ValueError, on every rank, unless the tensors' shapes and dtypes are equal on all ranks.
void check_alike(std::span<const Tensor> tensors, const Group& group);
/// Broadcasts the first rank's values.
void make_alike(std::span<const Tensor> tensors, const Group& group);

}  // namespace weft::distributed::detail
