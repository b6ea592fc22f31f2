// Line charts as plain SVG, legible on light and dark backgrounds.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "path.hpp"
#include "../tensor/error.hpp"

namespace weft::io {

/// A line through points (x, y). Points that are not finite are skipped.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points = {};
  /// Also draws the points as dots.
  bool markers = false;
  /// Draws the line pale, with a weighted moving mean over 1/25 of all points on top.
  bool smoothed = false;
};

struct CurveOptions {
  std::string title = {}, x_label = {}, y_label = {};
  /// Height of a dashed horizontal line, such as the loss of guessing. Drawn only if `reference_label` is not empty.
  double reference = 0;
  std::string reference_label = {};
  /// A logarithmic y axis. Points with y <= 0 are skipped.
  bool log_y = false;
};

/// Returns the chart as SVG, 720 points wide, with a legend and axes labelled at round numbers. Later series are drawn
/// over earlier ones, and all other lines over the pale ones. If there are many points, each pixel column shows only
/// its minimum and maximum, so peaks stay visible.
WEFT_API std::string curve_svg(const std::vector<Series>& series, const CurveOptions& options);

/// Writes `curve_svg` to a file, atomically. Raises IoError.
WEFT_API void save_curve(const Path& path, const std::vector<Series>& series, const CurveOptions& options,
                         Location where = {});

}  // namespace weft::io
