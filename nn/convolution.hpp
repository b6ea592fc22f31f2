// Convolutions as layers. weight starts uniform in ±1/√(channels of a group · size of the kernel), as does bias.
#pragma once

#include "../ops/convolution.hpp"
#include "../ops/pad.hpp"
#include "module.hpp"

namespace weft::nn {

/// As of weft::conv2d; one number stands for all spatial dimensions.
struct WEFT_API ConvOptions {
  Dims stride = 1;
  ConvolutionPadding padding = {};
  Dims dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  /// What stands in the padding: zeros (`constant`), or elements of x, as weft::pad takes them.
  Padding padding_mode = Padding::constant;
};
/// As of weft::conv_transpose2d.
struct WEFT_API ConvTransposeOptions {
  Dims stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Dims dilation = 1;
};

namespace detail {

/// A convolution where Options are ConvOptions, a transposed one where they are ConvTransposeOptions.
template <class Self, int dims, class Options>
class WEFT_API Convolution : public Layer<Self> {
 public:
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;

 private:
  friend Self;
  Convolution(int64_t in, int64_t out, const Dims& kernel, const Options& options, Location where);

  Options options_;
  /// Of weft::pad, before the convolution; none where it pads with zeros itself.
  Dims edges_;
};

}  // namespace detail

// From `in` channels to `out`, with kernels of the sizes `kernel`. ValueError for negative sizes, unless groups divides
// both numbers of channels, and for "same" with a stride.

/// weft::conv1d with weight [out, in / groups, kernel] and bias [out].
struct WEFT_API Conv1d : detail::Convolution<Conv1d, 1, ConvOptions> {
  Conv1d(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options = {}, Location where = {})
      : Convolution(in, out, kernel, options, where) {}
};
/// weft::conv2d with weight [out, in / groups, kernel, kernel].
struct WEFT_API Conv2d : detail::Convolution<Conv2d, 2, ConvOptions> {
  Conv2d(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options = {}, Location where = {})
      : Convolution(in, out, kernel, options, where) {}
};
/// weft::conv3d.
struct WEFT_API Conv3d : detail::Convolution<Conv3d, 3, ConvOptions> {
  Conv3d(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options = {}, Location where = {})
      : Convolution(in, out, kernel, options, where) {}
};
/// weft::conv_transpose1d with weight [in, out / groups, kernel...] and bias [out].
struct WEFT_API ConvTranspose1d : detail::Convolution<ConvTranspose1d, 1, ConvTransposeOptions> {
  ConvTranspose1d(int64_t in, int64_t out, const Dims& kernel, const ConvTransposeOptions& options = {},
                  Location where = {})
      : Convolution(in, out, kernel, options, where) {}
};
/// weft::conv_transpose2d with weight [in, out / groups, kernel...] and bias [out].
struct WEFT_API ConvTranspose2d : detail::Convolution<ConvTranspose2d, 2, ConvTransposeOptions> {
  ConvTranspose2d(int64_t in, int64_t out, const Dims& kernel, const ConvTransposeOptions& options = {},
                  Location where = {})
      : Convolution(in, out, kernel, options, where) {}
};
/// weft::conv_transpose3d with weight [in, out / groups, kernel...] and bias [out].
struct WEFT_API ConvTranspose3d : detail::Convolution<ConvTranspose3d, 3, ConvTransposeOptions> {
  ConvTranspose3d(int64_t in, int64_t out, const Dims& kernel, const ConvTransposeOptions& options = {},
                  Location where = {})
      : Convolution(in, out, kernel, options, where) {}
};

extern template class detail::Convolution<Conv1d, 1, ConvOptions>;
extern template class detail::Convolution<Conv2d, 2, ConvOptions>;
extern template class detail::Convolution<Conv3d, 3, ConvOptions>;
extern template class detail::Convolution<ConvTranspose1d, 1, ConvTransposeOptions>;
extern template class detail::Convolution<ConvTranspose2d, 2, ConvTransposeOptions>;
extern template class detail::Convolution<ConvTranspose3d, 3, ConvTransposeOptions>;

}  // namespace weft::nn
