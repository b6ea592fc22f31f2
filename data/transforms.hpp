// Transforms of images [channels, height, width] and of batches [n, channels, height, width], u8 or floating-point, on
// any device, without gradients. Results are new tensors unless stated otherwise.
//
// Random transforms depend only on their Generator: the same state gives the same result on every device. Each image of
// a batch is drawn separately, in order, so a batch gives the same result as its images one after the other. Draws are
// made on the host: one counter for each image and transform.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "../tensor/callback.hpp"
#include "../tensor/generator.hpp"
#include "../tensor/index.hpp"

namespace weft::data {

// ---- functions ------------------------------------------------------------------------------------------------------
// Raises ShapeError unless the image has 3 or 4 dimensions and is large enough, DTypeError for unsupported dtypes,
// ValueError for other invalid arguments.

/// Returns f32 from 0 to 1: u8 / 255, u16 / 65535. Floating-point images are returned unchanged.
WEFT_API Tensor to_float(const Tensor& image, Location where = {});
/// Returns (x - mean) / deviation for each channel of a floating-point image; a single number applies to all channels.
WEFT_API Tensor normalize(const Tensor& image, const std::vector<double>& mean, const std::vector<double>& deviation,
                          Location where = {});
/// Returns a view: rows from `top`, columns from `left`.
WEFT_API Tensor crop(const Tensor& image, int64_t top, int64_t left, int64_t height, int64_t width,
                     Location where = {});
/// Returns the centre as a view; `size` is the height and width, or one number for both. An odd margin is split as in
/// PyTorch: the first row is round((H - height) / 2), halves to even.
WEFT_API Tensor center_crop(const Tensor& image, const Dims& size, Location where = {});
/// Mirrors left and right, or top and bottom.
WEFT_API Tensor flip_horizontal(const Tensor& image, Location where = {});
WEFT_API Tensor flip_vertical(const Tensor& image, Location where = {});

struct ResizeOptions {
  /// Widens the filter when downscaling, as in PIL. Otherwise pixels are skipped.
  bool antialias = true;
  /// Bicubic instead of bilinear.
  bool bicubic = false;
};
/// Resizes to a height and width, or to one number for the shorter side, keeping the aspect ratio (the longer side is
/// rounded down). Bilinear as in PyTorch's interpolate. u8 is computed in f32 and rounded, halves to even; PIL rounds
/// after each direction and differs by at most 1.
WEFT_API Tensor resize(const Tensor& image, const Dims& size, ResizeOptions options = {}, Location where = {});

// ---- transforms as values -------------------------------------------------------------------------------------------

struct ToFloat {
  Tensor operator()(const Tensor& image, Location where = {}) const { return to_float(image, where); }
};
struct Normalize {
  std::vector<double> mean, deviation;
  Tensor operator()(const Tensor& image, Location where = {}) const { return normalize(image, mean, deviation, where); }
};
struct CenterCrop {
  Dims size;
  Tensor operator()(const Tensor& image, Location where = {}) const { return center_crop(image, size, where); }
};
struct Resize {
  Dims size;
  ResizeOptions options = {};
  Tensor operator()(const Tensor& image, Location where = {}) const { return resize(image, size, options, where); }
};
/// A random crop of this size, after padding the image with `padding` rows and columns of `fill` on each side.
struct RandomCrop {
  Dims size;
  int64_t padding = 0;
  double fill = 0;
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};
struct RandomHorizontalFlip {
  double p = 0.5;
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};
struct RandomVerticalFlip {
  double p = 0.5;
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};
/// A random crop with a random fraction of the area and a random aspect ratio (uniform in its logarithm), resized. A
/// crop that does not fit is redrawn up to nine times; then the centre with the nearest ratio is used.
struct RandomResizedCrop {
  Dims size;
  std::array<double, 2> scale = {0.08, 1.0}, ratio = {3.0 / 4, 4.0 / 3};
  ResizeOptions options = {};
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};
/// Scales brightness, contrast and saturation, in this order, each by a factor uniform in [max(0, 1 - s), 1 + s]:
/// relative to black, to the mean grey, and to the grey of each pixel (0.2989 R + 0.587 G + 0.114 B). Results are
/// clamped to [0, 1], or to [0, 255] for u8, which is rounded down once at the end. For 1 or 3 channels.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0;
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};
/// With probability p, fills a rectangle with `value`. Its fraction of the area and its ratio are drawn as in
/// RandomResizedCrop; if none of ten fits, the image is unchanged (Zhong et al. 2017).
struct RandomErasing {
  double p = 0.5;
  std::array<double, 2> scale = {0.02, 0.33}, ratio = {0.3, 3.3};
  double value = 0;
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};
/// RandomCrop, RandomHorizontalFlip, ToFloat and Normalize in one pass, for u8 images on the CPU, with the same draws
/// and the same bits.
struct CropFlipNormalize {
  Dims size;
  int64_t padding = 0;
  double p = 0.5;
  std::vector<double> mean = {0}, deviation = {1};
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};

/// Applies transforms in order; a transform is callable with an image, or with an image and a generator.
class WEFT_API Compose {
 public:
  using Step = Callback<Tensor(const Tensor& image, Generator& generator)>;

  template <class... Steps>
  explicit Compose(Steps... steps) {
    (add(std::move(steps)), ...);
  }
  template <class S>
  void add(S step) {
    if constexpr (requires(const Tensor& x, Generator& g) { step(x, g); }) steps_.push_back(std::move(step));
    else steps_.push_back([step = std::move(step)](const Tensor& x, Generator&) -> Tensor { return step(x); });
  }
  Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
  /// Uses the default generator.
  Tensor operator()(const Tensor& image, Location where = {}) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace weft::data
