// Curves over time as a picture: plain SVG that reads well on light and on dark ground.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <weft/io/path.hpp>
#include <weft/tensor/error.hpp>

namespace weft::io {

/// A line through points (x, y); points that are not finite are left out. `markers` draws the points as well.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points = {};
  bool markers = false;
};

struct CurveOptions {
  std::string title = {}, x_label = {}, y_label = {};
  /// A dashed horizontal line with a label, such as the loss of guessing; left out where the label is empty.
  double reference = 0;
  std::string reference_label = {};
};

/// The picture as SVG text, 720 by 420 points, with labelled axes at round numbers and a legend.
WEFT_API std::string curve_svg(const std::vector<Series>& series, const CurveOptions& options);

/// Writes `curve_svg` to a file, all at once. IoError.
WEFT_API void save_curve(const Path& path, const std::vector<Series>& series, const CurveOptions& options,
                         Location where = {});

}  // namespace weft::io
