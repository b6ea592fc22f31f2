// Convolution layers. weight and bias are initialised uniformly in ±1/√(channels per group · kernel size).
#pragma once

#include "../ops/convolution.hpp"
#include "../ops/pad.hpp"
#include "module.hpp"

namespace weft::nn {

/// Options of weft::conv2d; a single number applies to all spatial dimensions.
struct WEFT_API ConvOptions {
  Dims stride = 1;
  ConvolutionPadding padding = {};
  Dims dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  /// Padding values: zeros (`constant`), or elements of x, as in weft::pad.
  Padding padding_mode = Padding::constant;
};
/// Options of weft::conv_transpose2d.
struct WEFT_API ConvTransposeOptions {
  Dims stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Dims dilation = 1;
};

namespace detail {

/// A convolution if Options are ConvOptions, a transposed one if they are ConvTransposeOptions.
template <class Self, int dims, class Options>
class WEFT_API Convolution : public Layer<Self> {
 public:
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;

 private:
  friend Self;
  Convolution(int64_t in, int64_t out, const Dims& kernel, const Options& options, Location where);

  Options options_;
  /// Padding by weft::pad before the convolution; empty if the convolution pads with zeros itself.
  Dims edges_;
};

}  // namespace detail

// Maps `in` channels to `out` channels, with kernel sizes `kernel`. Raises ValueError for negative sizes, unless groups
// divides both numbers of channels, and for padding "same" with a stride.

/// weft::conv1d with weight [out, in / groups, kernel] and bias [out].
struct WEFT_API Conv1d : detail::Convolution<Conv1d, 1, ConvOptions> {
  Conv1d(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options = {}, Location where = {})
      : Convolution(in, out, kernel, options, where) {}
  template <class = void>
  Conv1d(int64_t, int64_t, const Dims&, ...) = delete;  // options have names and an order: {.stride = 2}
};
/// weft::conv2d with weight [out, in / groups, kernel, kernel].
struct WEFT_API Conv2d : detail::Convolution<Conv2d, 2, ConvOptions> {
  Conv2d(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options = {}, Location where = {})
      : Convolution(in, out, kernel, options, where) {}
  template <class = void>
  Conv2d(int64_t, int64_t, const Dims&, ...) = delete;  // options have names and an order: {.stride = 2}
};
/// weft::conv3d.
struct WEFT_API Conv3d : detail::Convolution<Conv3d, 3, ConvOptions> {
  Conv3d(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options = {}, Location where = {})
      : Convolution(in, out, kernel, options, where) {}
  template <class = void>
  Conv3d(int64_t, int64_t, const Dims&, ...) = delete;  // options have names and an order: {.stride = 2}
};
/// weft::conv_transpose1d with weight [in, out / groups, kernel...] and bias [out].
struct WEFT_API ConvTranspose1d : detail::Convolution<ConvTranspose1d, 1, ConvTransposeOptions> {
  ConvTranspose1d(int64_t in, int64_t out, const Dims& kernel, const ConvTransposeOptions& options = {},
                  Location where = {})
      : Convolution(in, out, kernel, options, where) {}
  template <class = void>
  ConvTranspose1d(int64_t, int64_t, const Dims&, ...) = delete;  // options have names and an order: {.stride = 2}
};
/// weft::conv_transpose2d with weight [in, out / groups, kernel...] and bias [out].
struct WEFT_API ConvTranspose2d : detail::Convolution<ConvTranspose2d, 2, ConvTransposeOptions> {
  ConvTranspose2d(int64_t in, int64_t out, const Dims& kernel, const ConvTransposeOptions& options = {},
                  Location where = {})
      : Convolution(in, out, kernel, options, where) {}
  template <class = void>
  ConvTranspose2d(int64_t, int64_t, const Dims&, ...) = delete;  // options have names and an order: {.stride = 2}
};
/// weft::conv_transpose3d with weight [in, out / groups, kernel...] and bias [out].
struct WEFT_API ConvTranspose3d : detail::Convolution<ConvTranspose3d, 3, ConvTransposeOptions> {
  ConvTranspose3d(int64_t in, int64_t out, const Dims& kernel, const ConvTransposeOptions& options = {},
                  Location where = {})
      : Convolution(in, out, kernel, options, where) {}
  template <class = void>
  ConvTranspose3d(int64_t, int64_t, const Dims&, ...) = delete;  // options have names and an order: {.stride = 2}
};

extern template class detail::Convolution<Conv1d, 1, ConvOptions>;
extern template class detail::Convolution<Conv2d, 2, ConvOptions>;
extern template class detail::Convolution<Conv3d, 3, ConvOptions>;
extern template class detail::Convolution<ConvTranspose1d, 1, ConvTransposeOptions>;
extern template class detail::Convolution<ConvTranspose2d, 2, ConvTransposeOptions>;
extern template class detail::Convolution<ConvTranspose3d, 3, ConvTransposeOptions>;

}  // namespace weft::nn
