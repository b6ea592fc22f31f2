// Boxes of a tensor's elements: a start and an end in every dimension. Internal to io/.
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
  /// Returns the box relative to `origin`.
  Box from(const Dims& origin) const {
    Box out = *this;
    for (int d = 0; d < rank(); ++d) out.starts[d] -= origin[d], out.ends[d] -= origin[d];
    return out;
  }
  bool operator==(const Box&) const = default;
};

/// Intersection of boxes of equal rank; may be empty.
inline Box intersection(const Box& a, const Box& b) {
  Box out = a;
  for (int d = 0; d < a.rank(); ++d) {
    out.starts[d] = std::max(a.starts[d], b.starts[d]);
    out.ends[d] = std::max(out.starts[d], std::min(a.ends[d], b.ends[d]));
  }
  return out;
}

/// Raises ShapeError for another rank, and IndexError unless the box is within the shape.
void check_box(const std::string& name, const Dims& shape, const Dims& starts, const Dims& ends, Location where);

/// Returns a view of the elements in a box.
Tensor part_of(Tensor tensor, const Box& box, Location where);

}  // namespace weft::io
