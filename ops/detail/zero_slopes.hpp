// Zero gradients that stay connected to the graph.
#pragma once

#include <span>

#include "common.hpp"

namespace weft {

/// A gradient that `node`'s backward computed of a piecewise linear op. It reads which piece an input is in and nothing
/// else of it, so its own gradients by the node's inputs, of these shapes, are 0. Without this it would be cut off from
/// them, and its backward would raise.
Tensor with_zero_slopes(Tensor gradient, const Node& node, std::span<const Dims> shapes);

}  // namespace weft
