#include "../transforms.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "geometry-inl.hpp"
#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/interpolate.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/rearrange.hpp"
#include "../../ops/reduce.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data {

void check_image(const Tensor& image, bool also_u16) {
  expect_shape("image", image, image.dim() == 3 || image.dim() == 4,
               "[channels, height, width] or [n, channels, height, width]");
  const DType dtype = image.dtype();
  if (dtype == DType::u8 || is_floating(dtype) || (also_u16 && dtype == DType::u16)) return;
  raise_dtype("image", also_u16 ? "uint8, uint16 or a floating-point dtype" : "uint8 or a floating-point dtype", dtype);
}

Size size_of(const Dims& size) {
  const bool good =
      (size.size() == 1 || size.size() == 2) && std::ranges::all_of(size, [](int64_t n) { return n > 0; });
  if (good) return {size[0], size[size.size() - 1]};
  raise_value("size", "one or two numbers above 0", size);
}

// ---- functions ------------------------------------------------------------------------------------------------------

Tensor to_float(const Tensor& image, Location where) {
  const CallScope call("to_float", where);
  const NoGradGuard no_gradients;
  check_image(image, true);
  if (is_floating(image.dtype())) return image;
  return image.to(DType::f32) / (image.dtype() == DType::u8 ? 255.0 : 65535.0);
}

namespace {

/// [channels, 1, 1] in the image's dtype.
Tensor per_channel(const std::vector<double>& values, const Tensor& image) {
  const int64_t channels = image.size(-3);
  if (values.size() != 1 && std::ssize(values) != channels) {
    raise<ValueError>({.problem = fmt::format("{} numbers for {} channels", values.size(), channels)});
  }
  return tensor(values, TensorOptions{.dtype = image.dtype(), .device = image.device()}).view({-1, 1, 1});
}

}  // namespace

Tensor normalize(const Tensor& image, const std::vector<double>& mean, const std::vector<double>& deviation,
                 Location where) {
  const CallScope call("normalize", where);
  const NoGradGuard no_gradients;
  check_image(image);
  if (!is_floating(image.dtype())) raise<DTypeError>({.problem = "an image of u8", .remedy = "use to_float first"});
  if (std::ranges::find(deviation, 0.0) != deviation.end()) raise<ValueError>({.problem = "a deviation of 0"});
  return (image - per_channel(mean, image)) / per_channel(deviation, image);
}

Tensor crop(const Tensor& image, int64_t top, int64_t left, int64_t height, int64_t width, Location where) {
  const CallScope call("crop", where);
  const NoGradGuard no_gradients;
  check_image(image);
  const int64_t rows = image.size(-2), columns = image.size(-1);
  if (height < 0 || width < 0 || top < 0 || left < 0 || height > rows || width > columns || top > rows - height ||
      left > columns - width) {
    raise<ShapeError>({.problem = fmt::format("{} x {} at row {} and column {} is not inside {} x {}", height, width,
                                              top, left, rows, columns)});
  }
  return image.narrow(-2, top, height).narrow(-1, left, width);
}

Tensor center_crop(const Tensor& image, const Dims& size, Location where) {
  const CallScope call("center_crop", where);
  check_image(image);
  const Size wished = size_of(size);
  const auto first = [](int64_t has, int64_t wants) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(has - wants) / 2));
  };
  return crop(image, first(image.size(-2), wished.height), first(image.size(-1), wished.width), wished.height,
              wished.width, where);
}

Tensor flip_horizontal(const Tensor& image, Location where) {
  const CallScope call("flip_horizontal", where);
  const NoGradGuard no_gradients;
  check_image(image);
  return flip(image, {-1});
}

Tensor flip_vertical(const Tensor& image, Location where) {
  const CallScope call("flip_vertical", where);
  const NoGradGuard no_gradients;
  check_image(image);
  return flip(image, {-2});
}

Tensor resize(const Tensor& image, const Dims& size, ResizeOptions options, Location where) {
  const CallScope call("resize", where);
  const NoGradGuard no_gradients;
  check_image(image);
  Size wished = size_of(size);
  const int64_t rows = image.size(-2), columns = image.size(-1);
  if (image.numel() == 0) raise<ShapeError>({.problem = fmt::format("an image of shape {}", image.shape().text())});
  if (size.size() == 1) {
    const auto scaled = [&](int64_t longer, int64_t shorter) {
      const double exact = static_cast<double>(size[0]) * static_cast<double>(longer) / static_cast<double>(shorter);
      if (!(exact < 0x1p31)) raise<ShapeError>({.problem = "the longer side becomes too long"});
      return static_cast<int64_t>(exact);
    };
    if (rows <= columns) wished.width = scaled(columns, rows);
    else wished.height = scaled(rows, columns);
  }
  if (wished.height == rows && wished.width == columns) return image.clone();
  const Tensor batch = image.dim() == 3 ? image.unsqueeze(0) : image;
  const bool whole = image.dtype() == DType::u8;
  const Tensor wide = interpolate(whole ? batch.to(DType::f32) : batch,
                                  {.size = {wished.height, wished.width},
                                   .mode = options.bicubic ? Interpolation::bicubic : Interpolation::bilinear,
                                   .antialias = options.antialias});
  const Tensor out = whole ? wide.round().clamp(0, 255).to(DType::u8) : wide;
  return image.dim() == 3 ? out.squeeze(0) : out;
}

// ---- chains ---------------------------------------------------------------------------------------------------------

Tensor Compose::operator()(const Tensor& image, Generator& generator, Location where) const {
  const CallScope call("Compose", where);
  Tensor out = image;
  for (const Step& step : steps_) out = step(out, generator);
  return out;
}

Tensor Compose::operator()(const Tensor& image, Location where) const {
  return (*this)(image, default_generator(), where);
}

}  // namespace weft::data
