// torch::nn::functional: convolutions, pools, padding and interpolation.
#include <torch/nn/functional.h>

#include <weft/ops/columns.hpp>
#include <weft/ops/convolution.hpp>
#include <weft/ops/interpolate.hpp>
#include <weft/ops/pad.hpp>
#include <weft/ops/pool.hpp>
#include <weft/ops/rearrange.hpp>

namespace torch::nn::functional {

namespace {

using weft::Dims;
using Pair = std::tuple<Tensor, Tensor>;

Pair pair(weft::ValuesAndIndices&& both) { return {std::move(both.values), std::move(both.indices)}; }

template <size_t D>
weft::ConvolutionPadding padding_of(const nn::detail::conv_padding_t<D>& padding) {
  if (const auto* sizes = std::get_if<ExpandingArray<D>>(&padding)) return Dims(*sizes);
  return std::holds_alternative<enumtype::kSame>(padding) ? "same" : "valid";
}

template <size_t D>
weft::MaxPoolOptions max_pool_options(const MaxPoolOptions<D>& options) {
  return {.stride = options.stride(),
          .padding = options.padding(),
          .dilation = options.dilation(),
          .ceil_mode = options.ceil_mode()};
}

/// Missing sizes are those of the input.
template <class Sizes>
Dims sizes_of(const Sizes& sizes, const Tensor& input) {
  Dims result;
  const int64_t first = input.dim() - static_cast<int64_t>(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if constexpr (std::is_convertible_v<decltype((*sizes)[i]), int64_t>) result.push_back((*sizes)[i]);
    else result.push_back((*sizes)[i].value_or(input.size(first + static_cast<int64_t>(i))));
  }
  return result;
}

}  // namespace

#define DIMENSIONS(n)                                                                                               \
  Tensor conv##n##d(const Tensor& input, const Tensor& weight, const Conv##n##dFuncOptions& options) {              \
    return weft::conv##n##d(input, weight, options.bias(),                                                          \
                            {.stride = options.stride(),                                                            \
                             .padding = padding_of<n>(options.padding()),                                           \
                             .dilation = options.dilation(),                                                        \
                             .groups = options.groups()});                                                          \
  }                                                                                                                 \
  Tensor conv_transpose##n##d(const Tensor& input, const Tensor& weight,                                            \
                              const ConvTranspose##n##dFuncOptions& options) {                                      \
    return weft::conv_transpose##n##d(input, weight, options.bias(),                                                \
                                      {.stride = options.stride(),                                                  \
                                       .padding = options.padding(),                                                \
                                       .output_padding = options.output_padding(),                                  \
                                       .groups = options.groups(),                                                  \
                                       .dilation = options.dilation()});                                            \
  }                                                                                                                 \
  Tensor avg_pool##n##d(const Tensor& input, const AvgPool##n##dFuncOptions& options) {                             \
    return weft::avg_pool##n##d(input, options.kernel_size(),                                                       \
                                {.stride = options.stride(),                                                        \
                                 .padding = options.padding(),                                                      \
                                 .ceil_mode = options.ceil_mode(),                                                  \
                                 .count_include_pad = options.count_include_pad(),                                  \
                                 .divisor_override = options.divisor_override()});                                  \
  }                                                                                                                 \
  Tensor max_pool##n##d(const Tensor& input, const MaxPool##n##dFuncOptions& options) {                             \
    return weft::max_pool##n##d(input, options.kernel_size(), max_pool_options<n>(options));                        \
  }                                                                                                                 \
  Pair max_pool##n##d_with_indices(const Tensor& input, const MaxPool##n##dFuncOptions& options) {                  \
    return pair(weft::max_pool##n##d_with_indices(input, options.kernel_size(), max_pool_options<n>(options)));     \
  }                                                                                                                 \
  Tensor adaptive_max_pool##n##d(const Tensor& input, const AdaptiveMaxPool##n##dFuncOptions& options) {            \
    return weft::adaptive_max_pool##n##d(input, sizes_of(options.output_size(), input));                            \
  }                                                                                                                 \
  Pair adaptive_max_pool##n##d_with_indices(const Tensor& input, const AdaptiveMaxPool##n##dFuncOptions& options) { \
    return pair(weft::adaptive_max_pool##n##d_with_indices(input, sizes_of(options.output_size(), input)));         \
  }                                                                                                                 \
  Tensor adaptive_avg_pool##n##d(const Tensor& input, const AdaptiveAvgPool##n##dFuncOptions& options) {            \
    return weft::adaptive_avg_pool##n##d(input, sizes_of(options.output_size(), input));                            \
  }                                                                                                                 \
  Tensor max_unpool##n##d(const Tensor& input, const Tensor& indices, const MaxUnpool##n##dFuncOptions& options) {  \
    return weft::max_unpool##n##d(input, indices, options.kernel_size(),                                            \
                                  {.stride = options.stride(),                                                      \
                                   .padding = options.padding(),                                                    \
                                   .output_size = options.output_size() ? Dims(*options.output_size()) : Dims()});  \
  }                                                                                                                 \
  Tensor lp_pool##n##d(const Tensor& input, const LPPool##n##dFuncOptions& options) {                               \
    return weft::lp_pool##n##d(input, options.norm_type(), options.kernel_size(), options.stride(),                 \
                               options.ceil_mode());                                                                \
  }
DIMENSIONS(1)
DIMENSIONS(2)
DIMENSIONS(3)
#undef DIMENSIONS

#define FRACTIONAL(n)                                                                                        \
  Pair fractional_max_pool##n##d_with_indices(const Tensor& input,                                           \
                                              const FractionalMaxPool##n##dFuncOptions& options) {           \
    TORCH_CHECK(options.output_size() || options.output_ratio(),                                             \
                "fractional_max_pool" #n "d requires specifying either an output_size or an output_ratio");  \
    weft::FractionalPoolOptions own{.random_samples = options._random_samples()};                            \
    if (options.output_size()) own.output_size = Dims(*options.output_size());                               \
    else own.output_ratio.assign((*options.output_ratio())->begin(), (*options.output_ratio())->end());      \
    return pair(weft::fractional_max_pool##n##d(input, options.kernel_size(), own));                         \
  }                                                                                                          \
  Tensor fractional_max_pool##n##d(const Tensor& input, const FractionalMaxPool##n##dFuncOptions& options) { \
    return std::get<0>(fractional_max_pool##n##d_with_indices(input, options));                              \
  }
FRACTIONAL(2)
FRACTIONAL(3)
#undef FRACTIONAL

Tensor fold(const Tensor& input, const FoldFuncOptions& options) {
  TORCH_CHECK(input.dim() == 3 || input.dim() == 2,
              "Input Error: Only unbatched (2D) or batched (3D) input Tensors are supported (got ", input.dim(), "D)");
  return weft::col2im(input, options.output_size(), options.kernel_size(),
                      {.dilation = options.dilation(), .padding = options.padding(), .stride = options.stride()});
}
Tensor unfold(const Tensor& input, const UnfoldFuncOptions& options) {
  TORCH_CHECK(input.dim() == 4 || input.dim() == 3,
              "Input Error: Only unbatched (3D) or batched (4D) input Tensors are supported (got ", input.dim(), "D)");
  return weft::im2col(input, options.kernel_size(),
                      {.dilation = options.dilation(), .padding = options.padding(), .stride = options.stride()});
}

Tensor pad(const Tensor& input, const PadFuncOptions& options) {
  using enum weft::Padding;
  const weft::Padding mode = std::holds_alternative<enumtype::kConstant>(options.mode())    ? constant
                             : std::holds_alternative<enumtype::kReflect>(options.mode())   ? reflect
                             : std::holds_alternative<enumtype::kReplicate>(options.mode()) ? replicate
                                                                                            : circular;
  return weft::pad(input, std::span<const int64_t>(options.pad()), mode, options.value());
}
Tensor pixel_shuffle(const Tensor& input, const PixelShuffleFuncOptions& options) {
  return weft::pixel_shuffle(input, options.upscale_factor());
}
Tensor pixel_unshuffle(const Tensor& input, const PixelUnshuffleFuncOptions& options) {
  return weft::pixel_unshuffle(input, options.downscale_factor());
}

namespace {

struct InterpolationOf {
  using I = weft::Interpolation;
  I operator()(enumtype::kNearest) const { return I::nearest; }
  I operator()(enumtype::kLinear) const { return I::linear; }
  I operator()(enumtype::kBilinear) const { return I::bilinear; }
  I operator()(enumtype::kBicubic) const { return I::bicubic; }
  I operator()(enumtype::kTrilinear) const { return I::trilinear; }
  I operator()(enumtype::kArea) const { return I::area; }
  I operator()(enumtype::kNearestExact) const { return I::nearest_exact; }
};

}  // namespace

Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& options) {
  weft::InterpolateOptions own;
  if (options.size()) own.size = Dims(*options.size());
  if (options.scale_factor()) own.scale_factor = *options.scale_factor();
  own.mode = std::visit(InterpolationOf(), options.mode());
  own.align_corners = options.align_corners();
  own.recompute_scale_factor = options.recompute_scale_factor().value_or(false);
  own.antialias = options.antialias();
  return weft::interpolate(input, own);
}
Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleFuncOptions& options) {
  const bool bilinear = std::holds_alternative<enumtype::kBilinear>(options.mode());
  const weft::GridPadding padding =
      std::holds_alternative<enumtype::kZeros>(options.padding_mode())    ? weft::GridPadding::zeros
      : std::holds_alternative<enumtype::kBorder>(options.padding_mode()) ? weft::GridPadding::border
                                                                          : weft::GridPadding::reflection;
  return weft::grid_sample(input, grid,
                           {.mode = bilinear ? weft::GridMode::bilinear : weft::GridMode::nearest,
                            .padding_mode = padding,
                            .align_corners = options.align_corners().value_or(false)});
}
Tensor affine_grid(const Tensor& theta, const IntArrayRef& size, bool align_corners) {
  return weft::affine_grid(theta, size, align_corners);
}

}  // namespace torch::nn::functional
