// Whether several positions of a layout share an element in memory.
#pragma once

#include "config.hpp"
#include "view.hpp"

namespace weft {

/// Returns false only if all positions are certainly distinct; looks at sizes and strides alone.
WEFT_API bool may_overlap(const Layout& layout);
/// The exact answer. Visits every element if sizes and strides do not decide it.
WEFT_API bool overlaps(const Layout& layout);

}  // namespace weft
