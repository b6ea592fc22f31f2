// Convolutions of few channels in the plane.
#pragma once

#include "shape.hpp"

namespace weft::cpu {

/// Computes the convolution if it applies and returns whether it did; the operands are those of
/// KernelTable::convolution. It does not apply to many channels, where other kernels are faster, nor where sums over
/// padding would change the result.
bool few_channels(Convolution product, const ConvolutionShape& shape, float* out, const float* a, const float* b,
                  const float* bias);

}  // namespace weft::cpu
