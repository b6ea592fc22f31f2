// Node positions in a layered drawing. Not public.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weft::detail {

struct Box {
  double width = 0, height = 0;
  int layer = 0;
  /// Set by `lay_out`: the centre of the box.
  double x = 0, y = 0;
};
struct Point {
  double x, y;
};
struct LaidOut {
  double width = 0, height = 0;
  /// For every edge, points from the bottom of its first box to the top of its second.
  std::vector<std::vector<Point>> ways;
};

/// Draws layers from top to bottom in descending number; every edge leads to a lower layer. Orders each layer by the
/// barycentres of its neighbours, then places boxes as near to their neighbours as their widths allow.
LaidOut lay_out(std::vector<Box>& boxes, const std::vector<std::pair<size_t, size_t>>& edges);

}  // namespace weft::detail
