// Looking for NaN and infinities in host memory.
#pragma once

#include "../../../tensor/view.hpp"

namespace weft::cpu {

struct NonFinite {
  bool nan = false;
  bool inf = false;
  bool any() const { return nan || inf; }
};

/// What stands in the elements of a view in host memory, laid out in any way; integers and 8-bit floats have none.
NonFinite find_non_finite(const View& view);

}  // namespace weft::cpu
