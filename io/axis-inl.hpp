// The axes of a picture: round ticks with labels that tell them apart. Internal to io/.
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

/// Values from `low` to `high` as shares of an axis.
struct Axis {
  double low, high;
  bool logarithmic = false;
  std::vector<Tick> ticks = {};

  double share(double value) const;
};

/// Five ticks or so, at 1, 2 or 5 times a power of ten, the ends among them. `whole`: none between whole numbers.
Axis linear_axis(double low, double high, bool whole = false);
/// Ticks at 1, 2 and 5 times powers of ten, or at some of the powers where there are many. Both ends are above 0.
Axis logarithmic_axis(double low, double high);

/// How wide a text in the pictures' font is at most, in points.
double width_of(std::string_view text, double size = 13);
/// As much of a text as fits into so much, with dots for the rest, and without characters that XML lacks.
std::string fitted(std::string_view text, double width, double size = 13);

}  // namespace weft::io
