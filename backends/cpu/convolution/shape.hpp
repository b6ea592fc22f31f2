// The sizes of a convolution, worked out once from its views.
#pragma once

#include <algorithm>

#include "../../dispatch.hpp"

namespace weft::cpu {

struct ConvolutionShape {
  int64_t batch, groups;
  int64_t channels, outputs;  ///< of one group
  int64_t in[3], kernel[3], out[3];
  ConvolutionSteps steps;

  ConvolutionShape(const View& data, const View& weight, const View& result, const ConvolutionSteps& given)
      : batch(data.layout.sizes[0]),
        groups(given.groups),
        channels(weight.layout.sizes[1]),
        outputs(weight.layout.sizes[0] / given.groups),
        steps(given) {
    for (int d = 0; d < 3; ++d) {
      in[d] = data.layout.sizes[2 + d];
      kernel[d] = weight.layout.sizes[2 + d];
      out[d] = result.layout.sizes[2 + d];
    }
  }

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// Weights of one output.
  int64_t depth() const { return channels * taps(); }

  /// The extent of padded input that the outputs read along d.
  int64_t reach(int d) const { return (out[d] - 1) * steps.stride[d] + (kernel[d] - 1) * steps.dilation[d] + 1; }

  /// The input's coordinate under tap k of output o, along d; outside [0, in) it is padding.
  int64_t under(int d, int64_t o, int64_t k) const {
    return o * steps.stride[d] - steps.padding[d] + k * steps.dilation[d];
  }
  /// The outputs along d, within [from, to), with tap k inside the input.
  struct Range {
    int64_t begin, end;
  };
  Range inside(int d, int64_t k, int64_t from, int64_t to) const {
    const int64_t shift = k * steps.dilation[d] - steps.padding[d], stride = steps.stride[d];
    const int64_t first = shift >= 0 ? 0 : (-shift - 1) / stride + 1;
    const int64_t last = in[d] - 1 < shift ? 0 : (in[d] - 1 - shift) / stride + 1;
    const int64_t begin = std::clamp(first, from, to);
    return {begin, std::clamp(last, begin, to)};
  }
};

/// One input channel for each group, such as every channel convolved by itself: too little for matrix products. Not
/// where a copy of the padded channel would be far larger than the channel, as by a huge dilation.
inline bool is_depthwise(const ConvolutionShape& s) {
  if (s.channels != 1 || s.outputs > 4 || s.groups == 1) return false;
  double padded = 1;
  for (int d = 0; d < 3; ++d) padded *= static_cast<double>(s.reach(d));
  return padded <= 65536 + 8 * static_cast<double>(std::max(s.in_size(), s.out_size()));
}
/// The operands are those of KernelTable::convolution.
void depthwise(Convolution product, const ConvolutionShape& shape, float* out, const float* a, const float* b,
               const float* bias);
void depthwise(Convolution product, const ConvolutionShape& shape, double* out, const double* a, const double* b,
               const double* bias);

}  // namespace weft::cpu
