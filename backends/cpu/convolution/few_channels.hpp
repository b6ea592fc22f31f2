// Convolutions of few channels in the plane.
#pragma once

#include "shape.hpp"

namespace weft::cpu {

/// Whether it was done; the operands are those of KernelTable::convolution. Not for many channels, whose blocks other
/// kernels fill, nor where a sum over padding would not be what it is without it.
bool few_channels(Convolution product, const ConvolutionShape& shape, float* out, const float* a, const float* b,
                  const float* bias);

}  // namespace weft::cpu
