#include "overlap.hpp"

#include <cstdlib>
#include <utility>
#include <vector>

#include "layout.hpp"

namespace weft {

bool may_overlap(const Layout& layout) {
  if (layout.contiguous != 0) return false;
  std::pair<int64_t, int64_t> steps[max_rank];  // stride and size, in ascending order
  int count = 0;
  for (int i = 0; i < layout.rank; ++i) {
    if (layout.sizes[i] <= 1) continue;
    const std::pair step(std::abs(layout.strides[i]), layout.sizes[i]);
    int at = count++;
    for (; at > 0 && step < steps[at - 1]; --at) steps[at] = steps[at - 1];
    steps[at] = step;
  }
  int64_t reach = 0;
  for (int i = 0; i < count; ++i) {
    const auto [stride, size] = steps[i];
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

namespace {

// Marks the elements reached by dimensions from `dim` on. Returns true if one is marked already.
bool marked_twice(const Layout& layout, int dim, int64_t offset, std::vector<bool>& marked) {
  if (dim == layout.rank) {
    const auto place = static_cast<size_t>(offset / itemsize(layout.dtype));
    if (marked[place]) return true;
    marked[place] = true;
    return false;
  }
  for (int64_t i = 0; i < layout.sizes[dim]; ++i) {
    if (marked_twice(layout, dim + 1, offset + i * layout.strides[dim], marked)) return true;
  }
  return false;
}

}  // namespace

bool overlaps(const Layout& layout) {
  if (!may_overlap(layout)) return false;
  for (int i = 0; i < layout.rank; ++i) {
    if (layout.sizes[i] > 1 && layout.strides[i] == 0) return true;
  }
  const ByteSpan span = byte_span(layout);
  const int64_t places = (span.high - span.low) / itemsize(layout.dtype);
  if (places < layout.numel) return true;
  std::vector<bool> marked(static_cast<size_t>(places));
  return marked_twice(layout, 0, -span.low, marked);
}

}  // namespace weft
