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
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;

 private:
  friend Self;
  Convolution(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options, Location where);

  ConvolutionOptions options_;
};

template <class Self, int dims>
class WEFT_API TransposedConvolution : public Layer<Self> {
 public:
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;

 private:
  friend Self;
  TransposedConvolution(int64_t in, int64_t out, const Dims& kernel, const ConvTransposeOptions& options,
                        Location where);

  TransposedConvolutionOptions options_;
};

}  // namespace detail

// From `in` channels to `out`, with kernels of the sizes `kernel`. ValueError for negative sizes, and unless groups
// divides both numbers of channels.

/// weft::conv1d with weight [out, in / groups, kernel] and bias [out].
struct Conv1d : detail::Convolution<Conv1d, 1> {
  Conv1d(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options = {}, Location where = {})
      : Convolution(in, out, kernel, options, where) {}
};
/// weft::conv2d with weight [out, in / groups, kernel, kernel].
struct Conv2d : detail::Convolution<Conv2d, 2> {
  Conv2d(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options = {}, Location where = {})
      : Convolution(in, out, kernel, options, where) {}
};
/// weft::conv3d.
struct Conv3d : detail::Convolution<Conv3d, 3> {
  Conv3d(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options = {}, Location where = {})
      : Convolution(in, out, kernel, options, where) {}
};
/// weft::conv_transpose1d with weight [in, out / groups, kernel...] and bias [out].
struct ConvTranspose1d : detail::TransposedConvolution<ConvTranspose1d, 1> {
  ConvTranspose1d(int64_t in, int64_t out, const Dims& kernel, const ConvTransposeOptions& options = {},
                  Location where = {})
      : TransposedConvolution(in, out, kernel, options, where) {}
};
/// weft::conv_transpose2d with weight [in, out / groups, kernel...] and bias [out].
struct ConvTranspose2d : detail::TransposedConvolution<ConvTranspose2d, 2> {
  ConvTranspose2d(int64_t in, int64_t out, const Dims& kernel, const ConvTransposeOptions& options = {},
                  Location where = {})
      : TransposedConvolution(in, out, kernel, options, where) {}
};
/// weft::conv_transpose3d with weight [in, out / groups, kernel...] and bias [out].
struct ConvTranspose3d : detail::TransposedConvolution<ConvTranspose3d, 3> {
  ConvTranspose3d(int64_t in, int64_t out, const Dims& kernel, const ConvTransposeOptions& options = {},
                  Location where = {})
      : TransposedConvolution(in, out, kernel, options, where) {}
};

extern template class detail::Convolution<Conv1d, 1>;
extern template class detail::Convolution<Conv2d, 2>;
extern template class detail::Convolution<Conv3d, 3>;
extern template class detail::TransposedConvolution<ConvTranspose1d, 1>;
extern template class detail::TransposedConvolution<ConvTranspose2d, 2>;
extern template class detail::TransposedConvolution<ConvTranspose3d, 3>;

}  // namespace weft::nn
