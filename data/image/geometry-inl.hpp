// Image sizes and random draws for images. Internal to data/.
#pragma once

#include "../transforms.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/philox.hpp"

namespace weft::data {

/// Raises ShapeError and DTypeError, as documented in the public headers.
void check_image(const Tensor& image, bool also_u16 = false);

struct Size {
  int64_t height, width;
};
/// One number applies to both. Raises ValueError unless all are positive.
Size size_of(const Dims& size);

/// Random numbers for one image: four for each reserved counter.
class Draw {
 public:
  explicit Draw(Generator& generator) : generator_(generator) { next(); }
  /// In [0, 1).
  double uniform() {
    if (used_ == 4) next();
    return static_cast<double>(words_.word[used_++]) * 0x1p-32;
  }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  /// Integer in [0, last].
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
