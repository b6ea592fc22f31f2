// Convolutions (more exactly, cross-correlations) over the last one, two or three dimensions.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>

#include "../tensor/index.hpp"

namespace weft {

/// Zero padding: equal on both sides of each spatial dimension, or "same", which keeps the sizes (the high side gets
/// the odd element), or "valid" for none.
struct ConvolutionPadding {
  Dims sizes = 0;
  bool same = false;

  ConvolutionPadding() = default;
  template <std::integral T>
  ConvolutionPadding(T size) : sizes(size) {}
  ConvolutionPadding(const Dims& sizes_) : sizes(sizes_) {}
  template <std::integral T>
  ConvolutionPadding(std::initializer_list<T> sizes_) : sizes(sizes_) {}
  /// ValueError for another word.
  WEFT_API ConvolutionPadding(std::string_view word, Location where = {});
  ConvolutionPadding(const char* word, Location where = {}) : ConvolutionPadding(std::string_view(word), where) {}
};

/// One number applies to all spatial dimensions.
struct ConvolutionOptions {
  Dims stride = 1;
  ConvolutionPadding padding = {};
  /// The distance between neighbours among a kernel's weights.
  Dims dilation = 1;
  /// Channels and outputs are split into so many groups that do not see each other.
  int64_t groups = 1;
};

/// y[n, o, i] = bias[o] + Σ x[n, c, i * stride - padding + k * dilation] * weight[o, c, k] over the channels c and the
/// positions k of the kernel. x [N, C, L] or [C, L], weight [O, C / groups, K], bias [O] or undefined; the result [N,
/// O, (L + 2 padding - dilation (K - 1) - 1) / stride + 1] is new and has x's dtype. 16-bit floats are computed in f32
/// and rounded once. Differentiable to any order in all three. Raises ShapeError if shapes do not fit, DTypeError
/// unless all have one floating dtype, DeviceError if devices differ. Raises ValueError for a stride, a dilation or
/// groups below 1, a negative padding, and "same" with a stride.
[[nodiscard]] WEFT_API Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                     ConvolutionOptions options = {}, Location where = {});
/// conv1d in two dimensions, with its dtypes and errors: x [N, C, H, W] or [C, H, W], weight [O, C / groups, KH, KW].
[[nodiscard]] WEFT_API Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                     ConvolutionOptions options = {}, Location where = {});
/// conv1d in three dimensions, with its dtypes and errors: x [N, C, D, H, W] or [C, D, H, W], weight [O, C / groups,
/// KD, KH, KW].
[[nodiscard]] WEFT_API Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                     ConvolutionOptions options = {}, Location where = {});

struct TransposedConvolutionOptions {
  Dims stride = 1;
  /// So many positions of the result are left out at both ends.
  Dims padding = 0;
  /// So many positions are added at the high end, for the sizes that a stride makes equal.
  Dims output_padding = 0;
  int64_t groups = 1;
  Dims dilation = 1;
};

/// The gradient of conv1d by its data, as an op: x [N, C, L] or [C, L], weight [C, O / groups, K], bias [O]; the result
/// [N, O, (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1]. dtypes, gradients and errors as conv1d;
/// ValueError unless output_padding is below the stride or the dilation.
[[nodiscard]] WEFT_API Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                               TransposedConvolutionOptions options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                               TransposedConvolutionOptions options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                               TransposedConvolutionOptions options = {}, Location where = {});

}  // namespace weft
