#include "../tiles.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../hooks/detail/text.hpp"
#include "../file.hpp"

namespace weft::io {

namespace {

using weft::detail::markup;

constexpr double width = 720, edge = 16, gap = 8, line_height = 18;

constexpr const char* style =
    "<style>\n"
    "  text { font: 12px system-ui, sans-serif; fill: #24292f; text-anchor: middle; }\n"
    "  .title { font-size: 15px; font-weight: 600; text-anchor: start; } .row { text-anchor: end; }\n"
    "  .ground { fill: #ffffff; } .on { fill: #ffffff; } .off { fill: #24292f; }\n"
    "  @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .ground { fill: #0d1117; } .on { fill: #ffffff; "
    "}\n"
    "    .off { fill: #24292f; } }\n"
    "</style>\n";

struct Scale {
  double low = 0, high = 0;

  void include(const double* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(values[i])) continue;
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
    }
  }
  /// Returns a value from -1 to 1, or from 0 to 1 without negative elements.
  double share(double value) const {
    const double extreme = std::max(high, -low);
    return extreme > 0 ? value / extreme : 0;
  }
  /// 16 levels, so that equal neighbours can be merged into one rectangle.
  int level(double value) const { return static_cast<int>(std::lround(share(value) * 16)); }
};

std::string colour(int level) {
  const double strength = std::abs(level) / 16.0;
  const auto mix = [strength](int full) { return static_cast<int>(std::lround(255 + (full - 255) * strength)); };
  if (level < 0) return fmt::format("#{:02x}{:02x}{:02x}", mix(0xC8), mix(0x57), mix(0x10));
  return fmt::format("#{:02x}{:02x}{:02x}", mix(0x1F), mix(0x4E), mix(0x8C));
}

struct Tiles {
  std::vector<double> values;
  int64_t count, rows, columns;
  double left, top, cell;
  int across;

  double tile_width() const { return cell * static_cast<double>(columns); }
  double tile_height() const { return cell * static_cast<double>(rows); }
};

std::string rectangle(double x, double y, double w, double h, const std::string& fill) {
  return fmt::format("<rect x=\"{:.4g}\" y=\"{:.4g}\" width=\"{:.4g}\" height=\"{:.4g}\" fill=\"{}\"/>\n", x, y, w, h,
                     fill);
}
std::string text(double x, double y, const char* kind, const std::string& words) {
  return fmt::format("<text x=\"{:.4g}\" y=\"{:.4g}\" class=\"{}\">{}</text>\n", x, y, kind, markup(words));
}

/// Draws one matrix; runs of equal shade in a row are one rectangle.
std::string matrix_svg(const Tiles& t, int64_t index, const Scale& scale, double x, double y) {
  const double* const values = t.values.data() + index * t.rows * t.columns;
  std::string out = rectangle(x, y, t.tile_width(), t.tile_height(), colour(0));
  constexpr int broken = 99;
  for (int64_t i = 0; i < t.rows; ++i) {
    const auto level = [&](int64_t j) {
      const double v = values[i * t.columns + j];
      return std::isfinite(v) ? scale.level(v) : broken;
    };
    for (int64_t j = 0; j < t.columns;) {
      const int shade = level(j);
      int64_t end = j + 1;
      while (end < t.columns && level(end) == shade) ++end;
      if (shade != 0) {
        out += rectangle(x + t.cell * static_cast<double>(j), y + t.cell * static_cast<double>(i),
                         t.cell * static_cast<double>(end - j), t.cell, shade == broken ? "#d1242f" : colour(shade));
      }
      j = end;
    }
  }
  return out;
}

/// Draws the values of a single matrix, and the names along it.
std::string legend_svg(const Tiles& t, const Scale& scale, const TilesOptions& options) {
  std::string out;
  const auto middle = [&](int64_t i) { return t.cell * (static_cast<double>(i) + 0.5); };
  for (int64_t i = 0; i < std::min<int64_t>(t.rows, std::ssize(options.names)); ++i) {
    out += text(t.left - 6, t.top + middle(i) + 4, "row", options.names[static_cast<size_t>(i)]);
  }
  for (int64_t j = 0; j < std::min<int64_t>(t.columns, std::ssize(options.names)); ++j) {
    out += text(t.left + middle(j), t.top + t.tile_height() + 14, "name", options.names[static_cast<size_t>(j)]);
  }
  for (int64_t i = 0; i < t.rows; ++i) {
    for (int64_t j = 0; j < t.columns; ++j) {
      const double value = t.values[static_cast<size_t>(i * t.columns + j)];
      const bool dark = !std::isfinite(value) || std::abs(scale.level(value)) > 8;
      out += text(t.left + middle(j), t.top + middle(i) + 4, dark ? "on" : "off", fmt::format("{:.4g}", value));
    }
  }
  if (!options.column_label.empty()) {
    out += text(t.left + t.tile_width() / 2, t.top + t.tile_height() + 32, "name", options.column_label);
  }
  if (!options.row_label.empty()) {
    out += fmt::format("<text transform=\"translate({:.4g} {:.4g}) rotate(-90)\">{}</text>\n", edge + 4,
                       t.top + t.tile_height() / 2, markup(options.row_label));
  }
  return out;
}

Tiles laid_out(const Tensor& matrices, const TilesOptions& options, Location where) {
  if (matrices.dim() != 2 && matrices.dim() != 3) {
    raise<ShapeError>(
        {.op = "tiles_svg",
         .problem = fmt::format("{} is neither [rows, columns] nor [count, rows, columns]", matrices.shape().text())},
        where);
  }
  const NoGradGuard unrecorded;
  const Tensor all = matrices.dim() == 2 ? matrices.unsqueeze(0) : matrices;
  Tiles t{all.to(DType::f64).to_vector<double>(),
          all.size(0),
          all.size(1),
          all.size(2),
          edge,
          options.title.empty() ? edge : edge + 24,
          0,
          1};
  const bool named = !options.names.empty();
  double longest = 0;
  for (const std::string& name : options.names) longest = std::max(longest, 7.0 * static_cast<double>(name.size()));
  if (named) t.left = edge + 24 + std::clamp(longest, 8.0, 160.0);
  const auto longest_side = static_cast<double>(std::max<int64_t>({t.rows, t.columns, 1}));
  t.across =
      options.columns > 0 ? options.columns : static_cast<int>(std::clamp<int64_t>(t.count, 1, t.count <= 8 ? 8 : 10));
  const double room = (width - t.left - edge - gap * (t.across - 1)) / t.across;
  t.cell = std::min(room / longest_side, named ? std::clamp(longest + 10, 48.0, 96.0) : room / longest_side);
  if (!named) t.cell = std::min(t.cell, 96 / std::min(longest_side, 96.0));
  return t;
}

}  // namespace

std::string tiles_svg(const Tensor& matrices, const TilesOptions& options, Location where) {
  const Tiles t = laid_out(matrices, options, where);
  const int64_t size = t.rows * t.columns;
  Scale all;
  all.include(t.values.data(), t.count * size);
  const double step_y = t.tile_height() + gap + (options.captions.empty() ? 0 : line_height);
  const int64_t lines = (t.count + t.across - 1) / t.across;
  const double below = options.names.empty() ? 0 : 44;
  // A single matrix fills its picture, which can then be scaled to any size.
  const bool alone = !options.names.empty() && t.count == 1 && options.title.empty();
  const double across = alone ? std::round(t.left + t.tile_width() + edge) : width;
  const double height = t.top + static_cast<double>(lines) * step_y + below + edge;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" height=\"{1:.0f}\" "
      "role=\"img\">\n{2}<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n",
      across, height, style);
  if (!options.title.empty()) out += text(edge, edge + 12, "title", options.title);
  for (int64_t i = 0; i < t.count; ++i) {
    const double x = t.left + static_cast<double>(i % t.across) * (t.tile_width() + gap);
    const double y = t.top + static_cast<double>(i / t.across) * step_y;
    Scale own;
    own.include(t.values.data() + i * size, size);
    out += matrix_svg(t, i, options.one_scale ? all : own, x, y);
    if (i < std::ssize(options.captions)) {
      out += text(x + t.tile_width() / 2, y + t.tile_height() + 14, "name", options.captions[static_cast<size_t>(i)]);
    }
  }
  if (!options.names.empty() && t.count == 1) out += legend_svg(t, all, options);
  return out + "</svg>\n";
}

void save_tiles(const Path& path, const Tensor& matrices, const TilesOptions& options, Location where) {
  write_file(path, tiles_svg(matrices, options, where), "save_tiles", where);
}

}  // namespace weft::io
