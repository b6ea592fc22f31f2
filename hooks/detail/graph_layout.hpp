// Where the nodes of a layered picture stand. Not public.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weft::detail {

struct Box {
  double width = 0, height = 0;
  int layer = 0;
  /// Set by `lay_out`: the middle of the box.
  double x = 0, y = 0;
};
struct Point {
  double x, y;
};
struct LaidOut {
  double width = 0, height = 0;
  /// For every edge, points from the lower edge of its first box to the upper edge of its second.
  std::vector<std::vector<Point>> ways;
};

/// Layers from top to bottom in descending number; every edge leads to a lower layer. Orders each layer by barycentres
/// of its neighbours, then places boxes as near to their neighbours as their widths allow.
LaidOut lay_out(std::vector<Box>& boxes, const std::vector<std::pair<size_t, size_t>>& edges);

}  // namespace weft::detail
