// Sizes of images and draws for them. Internal to data/.
#pragma once

#include "../transforms.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/philox.hpp"

namespace weft::data {

/// ShapeError, DTypeError, as the public functions raise them.
void check_image(const Tensor& image, bool also_u16 = false);

struct Size {
  int64_t height, width;
};
/// One number stands for both. ValueError unless all are positive.
Size size_of(const Dims& size);

/// Numbers for one image: four of each counter that is reserved.
class Draw {
 public:
  explicit Draw(Generator& generator) : generator_(generator) { next(); }
  /// [0, 1).
  double uniform() {
    if (used_ == 4) next();
    return static_cast<double>(words_.word[used_++]) * 0x1p-32;
  }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  /// From 0 to `last`.
  int64_t up_to(int64_t last) {
    const auto at = static_cast<int64_t>(uniform() * static_cast<double>(last + 1));
    return at > last ? last : at;
  }

 private:
  void next() {
    const GeneratorState state = generator_.reserve(1);
    words_ = philox4x32_10(state.seed, state.subsequence, state.offset);
    used_ = 0;
  }
  Generator& generator_;
  PhiloxWords words_;
  int used_ = 0;
};

}  // namespace weft::data
