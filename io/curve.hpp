// Curves over time as a picture: plain SVG that is legible on light and dark backgrounds.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "path.hpp"
#include "../tensor/error.hpp"

namespace weft::io {

/// A line through points (x, y); points that are not finite are left out.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points = {};
  /// Draws the points as dots as well.
  bool markers = false;
  /// Draws the line pale, and over it a weighted moving mean over a twenty-fifth of all points.
  bool smoothed = false;
};

struct CurveOptions {
  std::string title = {}, x_label = {}, y_label = {};
  /// A dashed horizontal line with a label, such as the loss of guessing; left out where the label is empty.
  double reference = 0;
  std::string reference_label = {};
  /// A logarithmic y axis; points that are not above 0 are left out.
  bool log_y = false;
};

/// The picture as SVG text, 720 points wide, with axes labelled at round numbers and a legend. Later series are drawn
/// over earlier ones, and every line over the pale ones. Of many points only the least and the greatest in each column
/// of the picture are drawn, so that no peak is lost.
WEFT_API std::string curve_svg(const std::vector<Series>& series, const CurveOptions& options);

/// Writes `curve_svg` to a file, which is replaced atomically. IoError.
WEFT_API void save_curve(const Path& path, const std::vector<Series>& series, const CurveOptions& options,
                         Location where = {});

}  // namespace weft::io
