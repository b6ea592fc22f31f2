#include "rearrange.hpp"

#include "../ops/axes.hpp"
#include "../ops/rearrange.hpp"
#include "layer-inl.hpp"

namespace weft::nn {

namespace {

std::string factors_text(const std::vector<double>& factors) {
  std::vector<std::string> numbers;
  for (const double factor : factors) numbers.push_back(python_float(factor));
  return numbers.size() == 1 ? numbers[0] : fmt::format("({})", fmt::join(numbers, ", "));
}

}  // namespace

Identity::Identity() {
  set_function([](const Tensor& x, bool, Location) { return x; });
}

Flatten::Flatten(int start_dim, int end_dim) {
  set_function([=](const Tensor& x, bool, Location where) { return x.flatten(start_dim, end_dim, where); },
               {{"start_dim", start_dim}, {"end_dim", end_dim}});
}

Unflatten::Unflatten(int dim, const Dims& unflattened_size) {
  set_function([=](const Tensor& x, bool, Location where) { return unflatten(x, dim, unflattened_size, where); },
               {{"dim", dim}, {"unflattened_size", unflattened_size}});
  set_extra_repr(fmt::format("dim={}, unflattened_size={}", dim, python_tuple(unflattened_size)));
}

Upsample::Upsample(const InterpolateOptions& options) {
  const std::string_view mode = interpolation_modes[static_cast<size_t>(options.mode)];
  const bool sized = !options.size.empty();
  set_function([options](const Tensor& x, bool, Location where) { return interpolate(x, options, where); },
               {{"size", sized ? Attribute(options.size) : Attribute()},
                {"scale_factor", options.scale_factor.empty() ? Attribute() : Attribute(options.scale_factor)},
                {"mode", mode},
                {"align_corners", options.align_corners},
                {"recompute_scale_factor", options.recompute_scale_factor},
                {"antialias", options.antialias}});
  set_extra_repr(fmt::format("{}={}, mode='{}'", sized ? "size" : "scale_factor",
                             sized ? python_sizes(options.size) : factors_text(options.scale_factor), mode));
}

PixelShuffle::PixelShuffle(int64_t upscale_factor) {
  set_function([=](const Tensor& x, bool, Location where) { return pixel_shuffle(x, upscale_factor, where); },
               {{"upscale_factor", upscale_factor}});
}

PixelUnshuffle::PixelUnshuffle(int64_t downscale_factor) {
  set_function([=](const Tensor& x, bool, Location where) { return pixel_unshuffle(x, downscale_factor, where); },
               {{"downscale_factor", downscale_factor}});
}

ChannelShuffle::ChannelShuffle(int64_t groups) {
  set_function([=](const Tensor& x, bool, Location where) { return channel_shuffle(x, groups, where); },
               {{"groups", groups}});
}

Unfold::Unfold(const Dims& kernel_size, const ColumnOptions& options) {
  set_function([=](const Tensor& x, bool, Location where) { return im2col(x, kernel_size, options, where); },
               {{"kernel_size", kernel_size},
                {"dilation", options.dilation},
                {"padding", options.padding},
                {"stride", options.stride}});
}

Fold::Fold(const Dims& output_size, const Dims& kernel_size, const ColumnOptions& options) {
  set_function(
      [=](const Tensor& x, bool, Location where) { return col2im(x, output_size, kernel_size, options, where); },
      {{"output_size", output_size},
       {"kernel_size", kernel_size},
       {"dilation", options.dilation},
       {"padding", options.padding},
       {"stride", options.stride}});
}

}  // namespace weft::nn
