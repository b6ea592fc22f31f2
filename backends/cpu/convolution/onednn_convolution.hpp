// Convolutions in f32 by oneDNN, where it has a kernel for the shape that is faster than the own ones.
#pragma once

#include "shape.hpp"

namespace weft::cpu {

/// Whether it was computed. The operands are those of KernelTable::convolution; every number of threads gives the same
/// bits.
bool onednn_convolution(Convolution product, const ConvolutionShape& shape, float* out, const float* a, const float* b,
                        const float* bias);

}  // namespace weft::cpu
