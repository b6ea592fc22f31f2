// Changes of images [channels, height, width] and of batches of them [n, channels, height, width], u8 or floating, on
// any device, without gradients. Results are new tensors unless said.
//
// What is random takes a Generator and nothing else: the same state gives the same result on every device. Each image
// of a batch is drawn for itself, in order, so that a batch becomes what its images become one after the other. A draw
// is made on the host: one counter for each image and transform.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "../tensor/callback.hpp"
#include "../tensor/generator.hpp"
#include "../tensor/index.hpp"

namespace weft::data {

// ---- functions ------------------------------------------------------------------------------------------------------
// ShapeError unless the image has 3 or 4 dimensions and is large enough, DTypeError for dtypes that are not named,
// ValueError for other bad arguments.

/// f32 from 0 to 1: u8 / 255, u16 / 65535. Floating images are returned as they are.
WEFT_API Tensor to_float(const Tensor& image, Location where = {});
/// (x - mean) / deviation of each channel, for floating images; one number serves all channels.
WEFT_API Tensor normalize(const Tensor& image, const std::vector<double>& mean, const std::vector<double>& deviation,
                          Location where = {});
/// A view: rows from `top`, columns from `left`.
WEFT_API Tensor crop(const Tensor& image, int64_t top, int64_t left, int64_t height, int64_t width,
                     Location where = {});
/// The middle, of which `size` says height and width, or both in one number: a view. An odd row or column that is too
/// many goes as PyTorch lets it go: the first row is round((H - height) / 2), halves to even.
WEFT_API Tensor center_crop(const Tensor& image, const Dims& size, Location where = {});
/// Left and right, or top and bottom, changed over.
WEFT_API Tensor flip_horizontal(const Tensor& image, Location where = {});
WEFT_API Tensor flip_vertical(const Tensor& image, Location where = {});

struct ResizeOptions {
  /// Widens the filter where the image shrinks, as PIL does. Without it pixels are left out.
  bool antialias = true;
  /// Bicubic rather than bilinear.
  bool bicubic = false;
};
/// Height and width, or in one number the shorter of both, with the ratio kept (the longer is rounded down). Bilinear,
/// as PyTorch's interpolate. u8 is computed in f32 and rounded, halves to even; PIL, which rounds after each direction,
/// differs by 1 at most.
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
/// A part of this size at a place of its own, of the image with `padding` rows and columns of `fill` on each side.
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
/// A part with a random share of the area and a random ratio of width to height (uniform in its logarithm), resized. A
/// part that does not fit is drawn anew, nine times; then it is the middle with the nearest ratio.
struct RandomResizedCrop {
  Dims size;
  std::array<double, 2> scale = {0.08, 1.0}, ratio = {3.0 / 4, 4.0 / 3};
  ResizeOptions options = {};
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};
/// Brightness, contrast and saturation, in this order, each by a factor uniform in [max(0, 1 - s), 1 + s]: from black,
/// from the mean grey, from the grey of each pixel (0.2989 R + 0.587 G + 0.114 B). Results are kept within 0 and 1, or
/// 0 and 255 for u8, which is rounded once, down. For 1 or 3 channels.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0;
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};
/// With probability p a rectangle becomes `value`; its share of the area and its ratio are drawn as those of
/// RandomResizedCrop, and where none of ten fits the image stays as it is (Zhong et al. 2017).
struct RandomErasing {
  double p = 0.5;
  std::array<double, 2> scale = {0.02, 0.33}, ratio = {0.3, 3.3};
  double value = 0;
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};
/// RandomCrop, RandomHorizontalFlip, ToFloat and Normalize for u8 images on the CPU, with the same draws and the same
/// bits, in one pass.
struct CropFlipNormalize {
  Dims size;
  int64_t padding = 0;
  double p = 0.5;
  std::vector<double> mean = {0}, deviation = {1};
  WEFT_API Tensor operator()(const Tensor& image, Generator& generator, Location where = {}) const;
};

/// Transforms one after the other; anything that is called with an image, or with an image and a generator, is one.
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
  /// With the default generator.
  Tensor operator()(const Tensor& image, Location where = {}) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace weft::data
