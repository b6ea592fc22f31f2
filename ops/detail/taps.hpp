// Kernels that slide over data [N, C, D, H, W], tap by tap, in ops that every device has. Not public.
#pragma once

#include "common.hpp"

namespace weft {

struct Taps {
  int64_t in[3], kernel[3], out[3];
  ConvolutionSteps steps;

  int64_t count() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t positions() const { return out[0] * out[1] * out[2]; }
};

/// [N, C * count, positions]: the element of x under each tap at each position, 0 beyond the edges. Not recorded.
Tensor columns_of(const Tensor& x, const Taps& taps);
/// The sums [N, channels, in...] of the entries of each element in such columns. Not recorded.
Tensor sums_of_columns(const Tensor& columns, int64_t channels, const Taps& taps);

}  // namespace weft
