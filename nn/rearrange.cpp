#include "rearrange.hpp"

#include "../ops/axes.hpp"
#include "../ops/rearrange.hpp"
#include "layer-inl.hpp"

namespace weft::nn {

namespace {

const char* mode_name(Interpolation mode) {
  constexpr const char* names[] = {"nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"};
  return names[static_cast<int>(mode)];
}

std::string factors_text(const std::vector<double>& factors) {
  std::vector<std::string> numbers;
  for (const double factor : factors) numbers.push_back(python_float(factor));
  return numbers.size() == 1 ? numbers[0] : fmt::format("({})", fmt::join(numbers, ", "));
}

std::string columns_text(const Dims& kernel_size, const ColumnOptions& options) {
  return fmt::format("kernel_size={}, dilation={}, padding={}, stride={}", python_sizes(kernel_size),
                     python_sizes(options.dilation), python_sizes(options.padding), python_sizes(options.stride));
}

}  // namespace

Identity::Identity() {
  set_function([](const Tensor& x, bool, Location) { return x; });
}

Flatten::Flatten(int start_dim, int end_dim) {
  set_function([=](const Tensor& x, bool, Location where) { return x.flatten(start_dim, end_dim, where); },
               fmt::format("start_dim={}, end_dim={}", start_dim, end_dim));
}

Unflatten::Unflatten(int dim, const Dims& unflattened_size) {
  set_function([=](const Tensor& x, bool, Location where) { return unflatten(x, dim, unflattened_size, where); },
               fmt::format("dim={}, unflattened_size={}", dim, python_tuple(unflattened_size)));
}

Upsample::Upsample(const InterpolateOptions& options) {
  const std::string size = options.size.empty() ? "scale_factor=" + factors_text(options.scale_factor)
                                                : "size=" + python_sizes(options.size);
  set_function([options](const Tensor& x, bool, Location where) { return interpolate(x, options, where); },
               fmt::format("{}, mode='{}'", size, mode_name(options.mode)));
}

PixelShuffle::PixelShuffle(int64_t upscale_factor) {
  set_function([=](const Tensor& x, bool, Location where) { return pixel_shuffle(x, upscale_factor, where); },
               fmt::format("upscale_factor={}", upscale_factor));
}

PixelUnshuffle::PixelUnshuffle(int64_t downscale_factor) {
  set_function([=](const Tensor& x, bool, Location where) { return pixel_unshuffle(x, downscale_factor, where); },
               fmt::format("downscale_factor={}", downscale_factor));
}

ChannelShuffle::ChannelShuffle(int64_t groups) {
  set_function([=](const Tensor& x, bool, Location where) { return channel_shuffle(x, groups, where); },
               fmt::format("groups={}", groups));
}

Unfold::Unfold(const Dims& kernel_size, const ColumnOptions& options) {
  set_function([=](const Tensor& x, bool, Location where) { return im2col(x, kernel_size, options, where); },
               columns_text(kernel_size, options));
}

Fold::Fold(const Dims& output_size, const Dims& kernel_size, const ColumnOptions& options) {
  set_function(
      [=](const Tensor& x, bool, Location where) { return col2im(x, output_size, kernel_size, options, where); },
      fmt::format("output_size={}, {}", python_sizes(output_size), columns_text(kernel_size, options)));
}

}  // namespace weft::nn
