// Images and their class labels.
#pragma once

#include "../tensor/index.hpp"

namespace weft::data {

struct LabelledImages {
  Tensor images;  ///< u8 [n, channels, height, width]
  Tensor labels;  ///< i64 [n]
};

}  // namespace weft::data
