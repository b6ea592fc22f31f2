// Boxes of a tensor's elements: from a start to an end in every dimension. Internal to io/.
#pragma once

#include <algorithm>
#include <string>

#include "../../tensor/error.hpp"
#include "../../tensor/tensor.hpp"

namespace weft::io {

struct Box {
  Dims starts, ends;

  static Box whole(const Dims& shape) { return {Dims::filled(shape.size(), 0), shape}; }
  int rank() const { return starts.size(); }
  int64_t size(int d) const { return ends[d] - starts[d]; }
  Dims shape() const {
    Dims out;
    for (int d = 0; d < rank(); ++d) out.push_back(size(d));
    return out;
  }
  bool empty() const {
    bool none = false;
    for (int d = 0; d < rank(); ++d) none |= starts[d] >= ends[d];
    return none;
  }
  /// As seen from a box that begins at `origin`.
  Box from(const Dims& origin) const {
    Box out = *this;
    for (int d = 0; d < rank(); ++d) out.starts[d] -= origin[d], out.ends[d] -= origin[d];
    return out;
  }
  bool operator==(const Box&) const = default;
};

/// Of boxes of one rank; empty where nothing is common.
inline Box intersection(const Box& a, const Box& b) {
  Box out = a;
  for (int d = 0; d < a.rank(); ++d) {
    out.starts[d] = std::max(a.starts[d], b.starts[d]);
    out.ends[d] = std::max(out.starts[d], std::min(a.ends[d], b.ends[d]));
  }
  return out;
}

/// ShapeError for another rank, IndexError unless the box lies within the shape.
void check_box(const std::string& name, const Dims& shape, const Dims& starts, const Dims& ends, Location where);

/// The view of a tensor's elements in a box.
Tensor part_of(Tensor tensor, const Box& box, Location where);

}  // namespace weft::io
