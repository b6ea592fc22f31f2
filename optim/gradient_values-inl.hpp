// What clipping and scaling read and write of a gradient. Internal to optim/.
#pragma once

#include "../autograd/gradient_rows.hpp"

namespace weft::optim {

/// The leaf's gradient, or the rows that it keeps: all elements that are not zeros, in the gradient's own memory.
/// Undefined where there is none.
inline Tensor gradient_values(const Tensor& leaf) {
  AccumulationNode* const node = accumulation_node(leaf.impl());
  if (WEFT_UNLIKELY(node != nullptr && node->rows != nullptr)) {
    if (auto rows = detail::gradient_rows(*node)) return rows->values;
  }
  return leaf.grad();
}

}  // namespace weft::optim
