// Whether several positions of a layout are the same element in memory.
#pragma once

#include "config.hpp"
#include "view.hpp"

namespace weft {

/// False only where every position certainly has an element of its own; looks at sizes and strides alone.
WEFT_API bool may_overlap(const Layout& layout);
/// The exact answer. Where sizes and strides do not decide, it visits every element.
WEFT_API bool overlaps(const Layout& layout);

}  // namespace weft
