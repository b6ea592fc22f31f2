// The rotation behind rotary_embedding and its inverse. Not public.
#pragma once

#include "../../tensor/tensor.hpp"

namespace weft {

/// ShapeError, DTypeError, DeviceError of rotary_embedding.
void check_rope(const Tensor& x, const Tensor& rope);
/// x rotated or, with `inverse`, multiplied by the transpose of the rotation. Recorded, to any order, for rope, too.
Tensor rotate(const Tensor& x, const Tensor& rope, bool interleaved, bool inverse);

}  // namespace weft
