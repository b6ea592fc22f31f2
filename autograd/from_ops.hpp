// Recorded building blocks that the graph needs from ops/, where they are defined.
#pragma once

#include "node.hpp"

namespace weft::detail {

/// a + b, recorded: sums gradients while the backward pass itself is being recorded.
Tensor recorded_add(const Tensor& a, const Tensor& b);
/// A node that derives `view` from its base by geometry alone (strides and offset).
Node* make_view_node(TensorImpl* base, TensorImpl* view);
/// A node for the base after the region of `view` was replaced by the output of `region_value`.
Node* make_region_node(TensorImpl* base, TensorImpl* view, Node* region_value);
/// A contiguous copy on the same device, recorded where gradients are being recorded.
Tensor fresh_copy(const Tensor& source);
/// Ones of the tensor's shape, dtype and device: the seed of a scalar.
Tensor ones_like_unrecorded(const Tensor& like);

Tensor zeros_unrecorded(const Dims& shape, DType dtype, Device device);

}  // namespace weft::detail
