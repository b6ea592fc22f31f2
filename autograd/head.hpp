// Changes of a tensor itself: another shape, other memory, no history. All its handles see them. Not public.
#pragma once

#include "node.hpp"

namespace weft::detail {

/// Gives `target` the shape and the history of `view`, a view of it: the elements stay, and gradients flow back through
/// the view. The version increases, so that backward detects saved tensors of the old shape. A gradient of another
/// shape is dropped.
void adopt_view(const Tensor& target, const Tensor& view);

/// Puts the memory of `source` under `target`, with its shape and dtype, as set_data does. The history stays.
void adopt_memory(const Tensor& target, const Tensor& source);

}  // namespace weft::detail
