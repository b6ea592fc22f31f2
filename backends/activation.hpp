// Activations that can be fused into a product.
#pragma once

#include <cstdint>

namespace weft {

/// none: x itself; relu: max(x, 0); gelu: x Phi(x), gelu_tanh its tanh approximation; silu: x sigmoid(x); selu.
enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu, selu };

}  // namespace weft
