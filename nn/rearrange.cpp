#include "rearrange.hpp"

#include "../ops/axes.hpp"
#include "../ops/rearrange.hpp"
#include "description-inl.hpp"

namespace weft::nn {

namespace {

std::string factors_text(const std::vector<double>& factors) {
  std::vector<std::string> numbers;
  for (const double factor : factors) numbers.push_back(python_float(factor));
  return numbers.size() == 1 ? numbers[0] : fmt::format("({})", fmt::join(numbers, ", "));
}

// How many dimensions x has beside [N, C].
int dims_of(const InterpolateOptions& o) {
  const int given = std::max(o.size.size(), static_cast<int>(o.scale_factor.size()));
  switch (o.mode) {
    case Interpolation::bilinear:
    case Interpolation::bicubic:
      return 2;
    case Interpolation::trilinear:
      return 3;
    default:
      return std::max(given, 1);
  }
}

// The size of an image that the factors scale to 1 or more.
int64_t least_size(const std::vector<double>& factors) {
  double least = 1;
  for (const double factor : factors) {
    if (factor > 0) least = std::max(least, std::ceil(1 / factor));
  }
  return least < 0x1p40 ? static_cast<int64_t>(least) : 0;
}

}  // namespace

static auto describe(Of<Identity>) { return described("Identity", ""); }
static auto describe(Of<Flatten>) {
  return described("Flatten", "flatten", option("start_dim", 1), option("end_dim", -1));
}
static auto describe(Of<Unflatten>) {
  return described("Unflatten", "unflatten", required<int>("dim"), required<Dims>("unflattened_size").tuple_of(1));
}
static auto describe(Of<Upsample>) {
  using O = InterpolateOptions;
  return described("Upsample", "interpolate", option("size", &O::size), option("scale_factor", &O::scale_factor),
                   option("mode", &O::mode, interpolation_modes), option("align_corners", &O::align_corners),
                   option("recompute_scale_factor", &O::recompute_scale_factor).none_in_python(),
                   option("antialias", &O::antialias).in_cpp_only());
}
static auto describe(Of<PixelShuffle>) {
  return described("PixelShuffle", "pixel_shuffle", required<int64_t>("upscale_factor"));
}
static auto describe(Of<PixelUnshuffle>) {
  return described("PixelUnshuffle", "pixel_unshuffle", required<int64_t>("downscale_factor"));
}
static auto describe(Of<ChannelShuffle>) {
  return described("ChannelShuffle", "channel_shuffle", required<int64_t>("groups"));
}
static auto describe(Of<Unfold>) {
  using O = ColumnOptions;
  return described("Unfold", "unfold", required<Dims>("kernel_size"), option("dilation", &O::dilation),
                   option("padding", &O::padding), option("stride", &O::stride));
}
static auto describe(Of<Fold>) {
  using O = ColumnOptions;
  return described("Fold", "fold", required<Dims>("output_size"), required<Dims>("kernel_size"),
                   option("dilation", &O::dilation), option("padding", &O::padding), option("stride", &O::stride));
}

Identity::Identity() {
  set_function([](const Tensor& x, bool, Location) { return x; });
}

Flatten::Flatten(int start_dim, int end_dim, Location where) {
  set_function([=](const Tensor& x, bool, Location place) { return x.flatten(start_dim, end_dim, place); });
  set_options(*this, where, start_dim, end_dim);
  forward(with_dims(start_dim, end_dim), where);
}

Unflatten::Unflatten(int dim, const Dims& unflattened_size, Location where) {
  set_function([=](const Tensor& x, bool, Location place) { return unflatten(x, dim, unflattened_size, place); });
  set_options(*this, where, dim, unflattened_size);
  Checked product = 1;
  for (const int64_t size : unflattened_size) product *= std::max<int64_t>(size, size == -1 ? 1 : 0);
  forward(with_dim(dim, product.fits() ? product.value() : 1), where);
}

Upsample::Upsample(const InterpolateOptions& options, Location where) {
  const std::string_view mode = interpolation_modes[static_cast<size_t>(options.mode)];
  const bool sized = !options.size.empty();
  set_function([options](const Tensor& x, bool, Location place) { return interpolate(x, options, place); });
  set_options(*this, where, options);
  set_extra_repr(fmt::format("{}={}, mode='{}'", sized ? "size" : "scale_factor",
                             sized ? python_sizes(options.size) : factors_text(options.scale_factor), mode));
  forward(empty_batch(dims_of(options), 1, least_size(options.scale_factor)), where);
}

PixelShuffle::PixelShuffle(int64_t upscale_factor, Location where) {
  set_function([=](const Tensor& x, bool, Location place) { return pixel_shuffle(x, upscale_factor, place); });
  set_options(*this, where, upscale_factor);
  forward(empty({0, 0, 0, 0}), where);
}

PixelUnshuffle::PixelUnshuffle(int64_t downscale_factor, Location where) {
  set_function([=](const Tensor& x, bool, Location place) { return pixel_unshuffle(x, downscale_factor, place); });
  set_options(*this, where, downscale_factor);
  forward(empty({0, 0, 0, 0}), where);
}

ChannelShuffle::ChannelShuffle(int64_t groups, Location where) {
  set_function([=](const Tensor& x, bool, Location place) { return channel_shuffle(x, groups, place); });
  set_options(*this, where, groups);
  forward(empty({0, 0, 0, 0}), where);
}

Unfold::Unfold(const Dims& kernel_size, const ColumnOptions& options, Location where) {
  set_function([=](const Tensor& x, bool, Location place) { return im2col(x, kernel_size, options, place); });
  set_options(*this, where, kernel_size, options);
  forward(empty_batch(2, 1, reach_of(kernel_size, options.dilation)), where);
}

Fold::Fold(const Dims& output_size, const Dims& kernel_size, const ColumnOptions& options, Location where) {
  set_function(
      [=](const Tensor& x, bool, Location place) { return col2im(x, output_size, kernel_size, options, place); });
  set_options(*this, where, output_size, kernel_size, options);
  Dims image{0, 1};
  for (const int64_t size : output_size) image.push_back(size);
  if (output_size.size() == 1) image.push_back(output_size[0]);
  (void)im2col(on_meta(image), kernel_size, options, where);
}

void detail::describe_rearrangements(LayerList& list) {
  list.add<Identity, Flatten, Unflatten, Upsample, PixelShuffle, PixelUnshuffle, ChannelShuffle, Unfold, Fold>();
}

}  // namespace weft::nn
