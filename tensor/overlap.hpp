// Whether one element stands at several positions of a layout.
#pragma once

#include "config.hpp"
#include "view.hpp"

namespace weft {

/// False where every position has an element of its own for certain: looks at sizes and strides alone.
WEFT_API bool may_overlap(const Layout& layout);
/// Exactly. Where sizes and strides do not decide, it takes the time of a write.
WEFT_API bool overlaps(const Layout& layout);

}  // namespace weft
