// Chart axes: ticks at round numbers, with distinct labels. Internal to io/.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::io {

struct Tick {
  double value;
  std::string label;
};

/// Maps values from [low, high] to [0, 1].
struct Axis {
  double low, high;
  bool logarithmic = false;
  std::vector<Tick> ticks = {};

  double share(double value) const;
};

/// About five ticks, at 1, 2 or 5 times a power of ten, including the ends. With `whole`, only at integers.
Axis linear_axis(double low, double high, bool whole = false);
/// Ticks at 1, 2 and 5 times powers of ten, or at some powers if there are many. Both ends must be above 0.
Axis logarithmic_axis(double low, double high);

/// Upper bound of a text's width in the chart font, in points.
double width_of(std::string_view text, double size = 13);
/// Truncates a text to `width` points, with dots at the end, and removes characters that XML does not allow.
std::string fitted(std::string_view text, double width, double size = 13);

}  // namespace weft::io
