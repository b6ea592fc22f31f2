// Convolutions as layers. weight starts uniform in ±1/√(channels of a group · size of the kernel), as does bias.
#pragma once

#include "../ops/convolution.hpp"
#include "containers.hpp"

namespace weft::nn {

/// As of weft::conv2d; one number stands for all spatial dimensions.
struct ConvOptions {
  Dims stride = 1;
  ConvolutionPadding padding = {};
  Dims dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
/// As of weft::conv_transpose2d.
struct ConvTransposeOptions {
  Dims stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Dims dilation = 1;
};

namespace detail {

template <class Self, int dims>
class WEFT_API Convolution : public Layer<Self> {
 public:
  /// From `in` channels to `out`, with kernels of the sizes `kernel`. ValueError for negative sizes, and unless groups
  /// divides both numbers of channels.
  Convolution(int64_t in, int64_t out, const Dims& kernel, ConvOptions options = {}, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;

 private:
  ConvolutionOptions options_;
};

template <class Self, int dims>
class WEFT_API TransposedConvolution : public Layer<Self> {
 public:
  TransposedConvolution(int64_t in, int64_t out, const Dims& kernel, ConvTransposeOptions options = {},
                        Location where = {});
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;

 private:
  TransposedConvolutionOptions options_;
};

}  // namespace detail

/// weft::conv1d with weight [out, in / groups, kernel] and bias [out].
struct Conv1d : detail::Convolution<Conv1d, 1> {
  using Convolution::Convolution;
};
/// weft::conv2d with weight [out, in / groups, kernel, kernel].
struct Conv2d : detail::Convolution<Conv2d, 2> {
  using Convolution::Convolution;
};
struct Conv3d : detail::Convolution<Conv3d, 3> {
  using Convolution::Convolution;
};
/// weft::conv_transpose1d with weight [in, out / groups, kernel] and bias [out].
struct ConvTranspose1d : detail::TransposedConvolution<ConvTranspose1d, 1> {
  using TransposedConvolution::TransposedConvolution;
};
struct ConvTranspose2d : detail::TransposedConvolution<ConvTranspose2d, 2> {
  using TransposedConvolution::TransposedConvolution;
};
struct ConvTranspose3d : detail::TransposedConvolution<ConvTranspose3d, 3> {
  using TransposedConvolution::TransposedConvolution;
};

extern template class detail::Convolution<Conv1d, 1>;
extern template class detail::Convolution<Conv2d, 2>;
extern template class detail::Convolution<Conv3d, 3>;
extern template class detail::TransposedConvolution<ConvTranspose1d, 1>;
extern template class detail::TransposedConvolution<ConvTranspose2d, 2>;
extern template class detail::TransposedConvolution<ConvTranspose3d, 3>;

}  // namespace weft::nn
