// Attention.
#pragma once

#include <optional>

#include "../tensor/index.hpp"

namespace weft {

/// softmax(scale · q · kᵀ + mask) · v, as PyTorch's function of that name. q is [..., L, E], k [..., S, E] and v
/// [..., S, Ev] with batch dimensions that broadcast; the result is [..., L, Ev] in q's dtype.
/// `mask` broadcasts to [..., L, S]: bool (true takes part) or an additive float. `causal` lets query i see keys 0 … i
/// (top-left aligned); both combine. A query that sees no key gives zeros and zero gradients. `scale` is 1 / sqrt(E)
/// unless given. With `enable_gqa` the heads of k and v (third dimension from the end) may be a divisor of q's.
/// Dropout applies to the weights. Scores of 16-bit floats are computed in f32. ShapeError, DTypeError, ValueError.
WEFT_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {},
                                             double dropout_p = 0, bool causal = false,
                                             std::optional<double> scale = {}, bool enable_gqa = false,
                                             Location where = {});

}  // namespace weft
