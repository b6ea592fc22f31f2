// The axes of a picture: ticks at round numbers, with distinct labels. Internal to io/.
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

/// Maps values from `low` to `high` to [0, 1].
struct Axis {
  double low, high;
  bool logarithmic = false;
  std::vector<Tick> ticks = {};

  double share(double value) const;
};

/// About five ticks, at 1, 2 or 5 times a power of ten, the ends included. With `whole`, only at whole numbers.
Axis linear_axis(double low, double high, bool whole = false);
/// Ticks at 1, 2 and 5 times powers of ten, or at some of the powers where there are many. Both ends must be above 0.
Axis logarithmic_axis(double low, double high);

/// An upper bound of a text's width in the pictures' font, in points.
double width_of(std::string_view text, double size = 13);
/// As much of a text as fits into `width` points, with dots for the rest, without characters that XML does not allow.
std::string fitted(std::string_view text, double width, double size = 13);

}  // namespace weft::io
