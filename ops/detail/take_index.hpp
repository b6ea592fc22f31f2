// One index along a dimension of a view, for select() and x[i].
#pragma once

#include "../../tensor/layout.hpp"
#include "../../tensor/view.hpp"

namespace weft {

/// `view` becomes the slice of `from`, which may be the same View, at `index` along `dim`.
inline void take_index(View& view, const View& from, int dim, int64_t index) {
  view.data = static_cast<char*>(from.data) + index * from.layout.strides[dim];
  Layout& layout = view.layout;
  layout.rank = static_cast<uint8_t>(from.layout.rank - 1);
  for (int i = 0; i < layout.rank; ++i) {
    const int old = i < dim ? i : i + 1;
    layout.sizes[i] = from.layout.sizes[old];
    layout.strides[i] = from.layout.strides[old];
  }
  finish_layout(layout);
}

}  // namespace weft
