#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "geometry-inl.hpp"
#include "../../autograd/mode.hpp"
#include "../../backends/cpu/thread_pool.hpp"
#include "../../ops/create.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/rearrange.hpp"
#include "../../ops/reduce.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data {

namespace {

template <class F>
void for_each_image(const Tensor& images, F&& f) {
  if (images.dim() == 3) return f(images, int64_t{0});
  for (int64_t i = 0; i < images.size(0); ++i) f(images.select(0, i), i);
}

Tensor like_of_size(const Tensor& images, Size size, DType dtype) {
  Dims shape = images.shape();
  shape[shape.size() - 2] = size.height;
  shape[shape.size() - 1] = size.width;
  return empty(shape, {.dtype = dtype, .device = images.device()});
}

Tensor image_of(const Tensor& images, int64_t i) { return images.dim() == 3 ? images : images.select(0, i); }

void check_probability(double p) { expect_range("p", p, 0, 1); }

/// Position of a crop, relative to the image without padding.
struct CropPlace {
  int64_t top, left;
};
/// The range of valid crop positions; raises ShapeError if the crop does not fit.
struct CropRange {
  int64_t last_top, last_left, padding;

  CropRange(const Tensor& images, Size size, int64_t padding_) : padding(padding_) {
    expect_range("padding", padding, 0, int64_t{1} << 31);
    last_top = images.size(-2) + 2 * padding - size.height;
    last_left = images.size(-1) + 2 * padding - size.width;
    if (last_top >= 0 && last_left >= 0) return;
    raise<ShapeError>({.problem = fmt::format("a crop of {} x {} from an image of shape {} with a padding of {}",
                                              size.height, size.width, images.shape().text(), padding)});
  }
  CropPlace draw(Draw& draw) const {
    const int64_t top = draw.up_to(last_top), left = draw.up_to(last_left);
    return {top - padding, left - padding};
  }
};

/// Intersection of [0, count) with [first, first + length), relative to `first`.
struct Overlap {
  int64_t begin, end;
  Overlap(int64_t first, int64_t length, int64_t count)
      : begin(std::clamp<int64_t>(-first, 0, length)), end(std::clamp<int64_t>(count - first, begin, length)) {}
  int64_t length() const { return end - begin; }
};

}  // namespace

Tensor RandomCrop::operator()(const Tensor& image, Generator& generator, Location where) const {
  const CallScope call("RandomCrop", where);
  const NoGradGuard no_gradients;
  check_image(image);
  const Size wished = size_of(size);
  const CropRange range(image, wished, padding);
  const Tensor out = like_of_size(image, wished, image.dtype());
  if (padding > 0) out.fill_(fill);
  for_each_image(image, [&](const Tensor& one, int64_t i) {
    Draw draw(generator);
    const CropPlace place = range.draw(draw);
    const Overlap rows(place.top, wished.height, one.size(-2)), columns(place.left, wished.width, one.size(-1));
    if (rows.length() == 0 || columns.length() == 0) return;
    const Tensor to =
        image_of(out, i).narrow(-2, rows.begin, rows.length()).narrow(-1, columns.begin, columns.length());
    to.copy_(
        one.narrow(-2, place.top + rows.begin, rows.length()).narrow(-1, place.left + columns.begin, columns.length()));
  });
  return out;
}

namespace {

Tensor flip_some(const Tensor& image, double p, int64_t dimension, Generator& generator) {
  const NoGradGuard no_gradients;
  check_image(image);
  check_probability(p);
  const Tensor out = empty(image.shape(), {.dtype = image.dtype(), .device = image.device()});
  for_each_image(image, [&](const Tensor& one, int64_t i) {
    image_of(out, i).copy_(Draw(generator).uniform() < p ? flip(one, {dimension}) : one);
  });
  return out;
}

}  // namespace

Tensor RandomHorizontalFlip::operator()(const Tensor& image, Generator& generator, Location where) const {
  const CallScope call("RandomHorizontalFlip", where);
  return flip_some(image, p, -1, generator);
}

Tensor RandomVerticalFlip::operator()(const Tensor& image, Generator& generator, Location where) const {
  const CallScope call("RandomVerticalFlip", where);
  return flip_some(image, p, -2, generator);
}

// ---- crops by area and ratio ----------------------------------------------------------------------------------------

namespace {

struct Part {
  int64_t top, left, height, width;
};

void check_ranges(const std::array<double, 2>& scale, const std::array<double, 2>& ratio) {
  const bool good = scale[0] >= 0 && scale[0] <= scale[1] && std::isfinite(scale[1]) && ratio[0] > 0 &&
                    ratio[0] <= ratio[1] && std::isfinite(ratio[1]);
  if (!good) raise<ValueError>({.problem = "a range is from low to high, of ratios above 0"});
}

/// Returns nothing if none of ten draws fits.
std::optional<Part> draw_part(Draw& draw, Size image, const std::array<double, 2>& scale,
                              const std::array<double, 2>& ratio) {
  const double area = static_cast<double>(image.height) * static_cast<double>(image.width);
  for (int i = 0; i < 10; ++i) {
    const double wished = area * draw.between(scale[0], scale[1]);
    const double aspect = std::exp(draw.between(std::log(ratio[0]), std::log(ratio[1])));
    const double width = std::nearbyint(std::sqrt(wished * aspect)),
                 height = std::nearbyint(std::sqrt(wished / aspect));
    if (!(width >= 1 && height >= 1 && width <= static_cast<double>(image.width) &&
          height <= static_cast<double>(image.height))) {
      continue;
    }
    const auto w = static_cast<int64_t>(width), h = static_cast<int64_t>(height);
    const int64_t top = draw.up_to(image.height - h), left = draw.up_to(image.width - w);
    return Part{top, left, h, w};
  }
  return {};
}

/// The largest centred crop with an allowed ratio.
Part middle_part(Size image, const std::array<double, 2>& ratio) {
  const double has = static_cast<double>(image.width) / static_cast<double>(image.height);
  int64_t width = image.width, height = image.height;
  if (has < ratio[0]) height = std::llrint(static_cast<double>(width) / ratio[0]);
  else if (has > ratio[1]) width = std::llrint(static_cast<double>(height) * ratio[1]);
  width = std::clamp<int64_t>(width, 1, image.width);
  height = std::clamp<int64_t>(height, 1, image.height);
  return {(image.height - height) / 2, (image.width - width) / 2, height, width};
}

}  // namespace

Tensor RandomResizedCrop::operator()(const Tensor& image, Generator& generator, Location where) const {
  const CallScope call("RandomResizedCrop", where);
  const NoGradGuard no_gradients;
  check_image(image);
  check_ranges(scale, ratio);
  const Size has = {image.size(-2), image.size(-1)}, wished = size_of(size);
  if (image.numel() == 0) raise<ShapeError>({.problem = fmt::format("an image of shape {}", image.shape().text())});
  const Tensor out = like_of_size(image, wished, image.dtype());
  for_each_image(image, [&](const Tensor& one, int64_t i) {
    Draw draw(generator);
    const auto drawn = draw_part(draw, has, scale, ratio);
    const Part part = drawn ? *drawn : middle_part(has, ratio);
    const Tensor cut = one.narrow(-2, part.top, part.height).narrow(-1, part.left, part.width);
    image_of(out, i).copy_(resize(cut, {wished.height, wished.width}, options));
  });
  return out;
}

Tensor RandomErasing::operator()(const Tensor& image, Generator& generator, Location where) const {
  const CallScope call("RandomErasing", where);
  const NoGradGuard no_gradients;
  check_image(image);
  check_ranges(scale, ratio);
  check_probability(p);
  const Tensor out = image.clone();
  for_each_image(out, [&](const Tensor& one, int64_t) {
    Draw draw(generator);
    if (!(draw.uniform() < p)) return;
    const auto part = draw_part(draw, {one.size(-2), one.size(-1)}, scale, ratio);
    if (part) one.narrow(-2, part->top, part->height).narrow(-1, part->left, part->width).fill_(value);
  });
  return out;
}

// ---- colours --------------------------------------------------------------------------------------------------------

namespace {

/// [n, 1, height, width] from images [n, 1 or 3, height, width].
Tensor grey_of(const Tensor& images) {
  if (images.size(1) == 1) return images;
  return images.narrow(1, 0, 1) * 0.2989 + images.narrow(1, 1, 1) * 0.587 + images.narrow(1, 2, 1) * 0.114;
}

}  // namespace

Tensor ColorJitter::operator()(const Tensor& image, Generator& generator, Location where) const {
  const CallScope call("ColorJitter", where);
  const NoGradGuard no_gradients;
  check_image(image);
  const int64_t channels = image.size(-3);
  if (channels != 1 && channels != 3) raise_rank("image", "1 or 3 channels", image);
  if (!(brightness >= 0 && contrast >= 0 && saturation >= 0)) raise<ValueError>({.problem = "a negative strength"});
  const bool whole = image.dtype() == DType::u8;
  const double full_scale = whole ? 255 : 1;
  Tensor x = image.dim() == 3 ? image.unsqueeze(0) : image;
  if (whole) x = x.to(DType::f32);
  std::vector<double> factors[3];
  for (int64_t i = 0; i < x.size(0); ++i) {
    Draw draw(generator);
    size_t kind = 0;
    for (const double strength : {brightness, contrast, saturation}) {
      factors[kind++].push_back(draw.between(std::max(0.0, 1 - strength), 1 + strength));
    }
  }
  const auto factor = [&](size_t kind) {
    return tensor(factors[kind], TensorOptions{.dtype = x.dtype(), .device = x.device()}).view({-1, 1, 1, 1});
  };
  const auto blend = [&](const Tensor& from, const Tensor& f) { return (from + (x - from) * f).clamp(0, full_scale); };
  if (brightness > 0) x = (x * factor(0)).clamp(0, full_scale);
  if (contrast > 0) x = blend(grey_of(x).mean({-1, -2}, true), factor(1));
  if (saturation > 0) x = blend(grey_of(x), factor(2));
  if (whole) x = x.to(DType::u8);
  return image.dim() == 3 ? x.squeeze(0) : x;
}

// ---- in one pass ----------------------------------------------------------------------------------------------------

namespace {

/// The normalized value of each of the 256 values of a channel.
std::vector<float> value_table(const Tensor& image, const std::vector<double>& mean,
                               const std::vector<double>& deviation) {
  const int64_t channels = image.size(-3);
  const Tensor all = arange(256, {.dtype = DType::i64}).to(DType::u8).view({1, 1, 256}).expand({channels, 1, 256});
  return normalize(to_float(all), mean, deviation).contiguous().to_vector<float>();
}

struct Look {
  CropPlace place;
  bool flipped;
};

void copy_plane(const uint8_t* from, int64_t rows, int64_t columns, const float* table, Look look, float* to,
                Size size) {
  const Overlap across(look.place.left, size.width, columns);
  for (int64_t y = 0; y < size.height; ++y, to += size.width) {
    const int64_t row = look.place.top + y;
    if (row < 0 || row >= rows) {
      std::fill_n(to, size.width, table[0]);
      continue;
    }
    const uint8_t* line = from + row * columns;
    const int64_t left = look.place.left;
    if (look.flipped) {
      float* const last = to + size.width - 1;
      for (int64_t x = 0; x < across.begin; ++x) last[-x] = table[0];
      for (int64_t x = across.begin; x < across.end; ++x) last[-x] = table[line[left + x]];
      for (int64_t x = across.end; x < size.width; ++x) last[-x] = table[0];
    } else {
      std::fill_n(to, across.begin, table[0]);
      for (int64_t x = across.begin; x < across.end; ++x) to[x] = table[line[left + x]];
      std::fill(to + across.end, to + size.width, table[0]);
    }
  }
}

}  // namespace

Tensor CropFlipNormalize::operator()(const Tensor& image, Generator& generator, Location where) const {
  const CallScope call("CropFlipNormalize", where);
  const NoGradGuard no_gradients;
  check_image(image);
  check_probability(p);
  if (image.dtype() != DType::u8 || image.device() != Device()) {
    raise_dtype("image", "uint8 on cpu", fmt::format("{} on {}", name(image.dtype()), image.device().name()),
                "use the four transforms for other images");
  }
  const Size wished = size_of(size);
  const CropRange range(image, wished, padding);
  const std::vector<float> table = value_table(image, mean, deviation);
  const Tensor from = image.contiguous();
  const int64_t count = image.dim() == 3 ? 1 : image.size(0), channels = image.size(-3);
  const int64_t rows = image.size(-2), columns = image.size(-1);
  // Draw all crops before the first flip, in the same order as the separate transforms.
  std::vector<Look> looks;
  for (int64_t i = 0; i < count; ++i) {
    Draw draw(generator);
    looks.push_back({range.draw(draw), false});
  }
  for (Look& look : looks) look.flipped = Draw(generator).uniform() < p;
  const Tensor out = like_of_size(image, wished, DType::f32);
  const auto* in = static_cast<const uint8_t*>(from.data_ptr());
  auto* to = static_cast<float*>(out.data_ptr());
  const int64_t plane = wished.height * wished.width;
  cpu::parallel_for(count * channels, std::max<int64_t>(1, 65536 / plane), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      copy_plane(in + i * rows * columns, rows, columns, table.data() + i % channels * 256,
                 looks[static_cast<size_t>(i / channels)], to + i * plane, wished);
    }
  });
  return out;
}

}  // namespace weft::data
