#include "../curve.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "../../hooks/detail/text.hpp"
#include "axis-inl.hpp"
#include "../file.hpp"

namespace weft::io {

namespace {

using Point = std::pair<double, double>;
using Points = std::vector<Point>;
using weft::detail::markup;

constexpr double width = 720, plot_height = 320, right = 24, bottom = 56, legend_row = 20;
constexpr const char* colours[] = {"#3b82c4", "#e0752b", "#3f9b57", "#b0569f", "#8a7a1f", "#5b6bd6"};

constexpr const char* style =
    "<style>\n"
    "  text { font: 13px system-ui, sans-serif; fill: #24292f; }\n"
    "  .title { font-size: 15px; font-weight: 600; }\n"
    "  .ground { fill: #ffffff; } .grid { stroke: #d8dee4; } .axis { stroke: #6e7781; } .guess { stroke: #8c959f; }\n"
    "  .over { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round; }\n"
    "  polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .pale { stroke-width: 1; opacity: .35; }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #e6edf3; }\n"
    "    .ground { fill: #0d1117; } .grid { stroke: #30363d; } .axis { stroke: #8b949e; } .guess { stroke: #6e7681; }\n"
    "    .over { stroke: #0d1117; }\n"
    "  }\n"
    "</style>\n";

// Positions in the chart; the plot area depends on the width of the labels.
struct Frame {
  Axis x, y;
  double left, top, height;

  double plot_width() const { return width - left - right; }
  double across(double value) const { return left + x.share(value) * plot_width(); }
  double down(double value) const { return top + (1 - y.share(value)) * plot_height; }
};

// ---- points ---------------------------------------------------------------------------------------------------------

// A weighted moving mean over about 1/25 of the points. Near an end the window shrinks on both sides, so that a falling
// curve is not shifted.
Points smoothed(const Points& points) {
  constexpr size_t limit = 600, share = 50;
  if (points.size() < 2) return points;
  const size_t last = points.size() - 1, count = std::min(points.size(), limit);
  Points out;
  for (size_t k = 0; k < count; ++k) {
    const size_t i = k * last / (count - 1);
    const size_t reach = std::min({i, last - i, std::max<size_t>(1, points.size() / share)});
    double sum = 0;
    for (size_t d = 0; d <= reach; ++d) {  // nearer neighbours have more weight
      const double weight = static_cast<double>(reach + 1 - d) / static_cast<double>((reach + 1) * (reach + 1));
      sum += weight * points[i - d].second + (d > 0 ? weight * points[i + d].second : 0);
    }
    out.emplace_back(points[i].first, sum);
  }
  return out;
}

// Keeps the first, lowest, highest and last point of each pixel column, in order.
Points thinned(const Points& points, const Frame& frame) {
  Points out;
  const auto column = [&](const Point& p) { return std::floor(frame.across(p.first)); };
  for (auto run = points.begin(); run != points.end();) {
    const double at = column(*run);
    const auto end = std::find_if(run, points.end(), [&](const Point& p) { return column(p) != at; });
    const auto [low, high] = std::minmax_element(run, end, [](auto& a, auto& b) { return a.second < b.second; });
    auto chosen = {run, std::min(low, high), std::max(low, high), std::prev(end)};
    for (auto last = points.end(); const auto p : chosen) {
      if (p != last) out.push_back(*p);
      last = p;
    }
    run = end;
  }
  return out;
}

Points drawable_points(const Series& series, bool log_y) {
  constexpr double largest = 1e300;  // keeps differences finite
  Points out;
  for (const auto& [x, y] : series.points) {
    if (!std::isfinite(x) || !std::isfinite(y) || (log_y && !(y > 0))) continue;
    out.emplace_back(std::clamp(x, -largest, largest), std::clamp(y, -largest, largest));
  }
  return out;
}

// ---- the frame ------------------------------------------------------------------------------------------------------

struct Extent {
  double low = INFINITY, high = -INFINITY;
  void widen(double value) { low = std::min(low, value), high = std::max(high, value); }
};

Axis y_axis(Extent y, bool log_y) {
  if (!(y.low <= y.high)) y = log_y ? Extent{1, 10} : Extent{0, 1};
  if (log_y) return logarithmic_axis(y.low, y.high);
  // Start at 0 unless the curve stays far above it.
  if (y.low > 0 && y.low < 0.7 * y.high) y.low = 0;
  return linear_axis(y.low, y.high);
}

struct LegendEntry {
  std::string name;
  double x, y;
};
std::vector<LegendEntry> legend_of(const std::vector<Series>& series, double left, double top) {
  constexpr double swatch = 26, gap = 24;
  std::vector<LegendEntry> out;
  double x = left;
  for (const Series& s : series) {
    const std::string name = fitted(s.name, width - left - right - swatch);
    const double entry = swatch + width_of(name);
    if (x > left && x + entry > width - right) x = left, top += legend_row;
    out.push_back({name, x, top});
    x += entry + gap;
  }
  return out;
}

Frame frame_of(const std::vector<Points>& points, const std::vector<Series>& series, const CurveOptions& options) {
  Extent x, y;
  bool whole = true;
  for (const Points& list : points) {
    for (const auto& [px, py] : list) {
      x.widen(px), y.widen(py);
      whole = whole && px == std::floor(px);
    }
  }
  if (!(x.low <= x.high)) x = {0, 1};
  const bool shows_reference = !options.reference_label.empty() && (!options.log_y || options.reference > 0);
  if (shows_reference) y.widen(options.reference);
  Frame frame{linear_axis(x.low, x.high, whole), y_axis(y, options.log_y), 0, 0, 0};
  double labels = 0;
  for (const Tick& tick : frame.y.ticks) labels = std::max(labels, width_of(tick.label));
  frame.left = (options.y_label.empty() ? 10 : 30) + labels + 8;
  const double head = options.title.empty() ? 14 : 36;
  const auto legend = legend_of(series, frame.left, head);
  // A label above a line at the top of the plot needs room below the legend.
  frame.top = (legend.empty() ? head : legend.back().y + legend_row) + 14;
  frame.height = frame.top + plot_height + bottom;
  return frame;
}

// ---- the picture ----------------------------------------------------------------------------------------------------

std::string grid(const Frame& f) {
  std::string out;
  for (const auto& [value, label] : f.y.ticks) {
    const double at = f.down(value);
    out += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>\n", f.left, at,
                       width - right, at);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", f.left - 8, at + 4, label);
  }
  for (const auto& [value, label] : f.x.ticks) {
    // Centred, unless the label would leave the picture.
    const double half = width_of(label) / 2, at = std::min(f.across(value), width - 4 - half);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", at,
                       f.top + plot_height + 20, label);
  }
  return out + fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\"/>\n", f.left,
                           f.top + plot_height, width - right);
}

std::string line(const Points& points, const Frame& f, const char* colour, const char* kind = "") {
  std::string path;
  for (const auto& [x, y] : points) {
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", f.across(x), f.down(y));
  }
  return fmt::format("<polyline{} points=\"{}\" stroke=\"{}\"/>\n", kind, path, colour);
}

std::string dots(const Points& points, const Frame& f, const char* colour) {
  std::string out;
  for (const auto& [x, y] : points) {
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", f.across(x), f.down(y), colour);
  }
  return out;
}

std::string words(const Frame& f, const CurveOptions& o) {
  std::string out;
  const double middle = f.left + f.plot_width() / 2, beside = f.top + plot_height / 2;
  if (!o.title.empty()) {
    out += fmt::format("<text class=\"title\" x=\"{:.1f}\" y=\"24\">{}</text>\n", f.left,
                       markup(fitted(o.title, f.plot_width(), 16)));
  }
  if (!o.x_label.empty()) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", middle, f.height - 14,
                       markup(fitted(o.x_label, f.plot_width())));
  }
  if (!o.y_label.empty()) {
    out += fmt::format(
        "<text x=\"18\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {0:.1f})\">{1}</text>\n", beside,
        markup(fitted(o.y_label, f.height - 20)));
  }
  return out;
}

std::string reference(const Frame& f, const CurveOptions& o) {
  if (o.reference_label.empty() || (o.log_y && !(o.reference > 0))) return "";
  const double at = f.down(o.reference);
  return fmt::format(
      "<line class=\"guess\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\" stroke-dasharray=\"5 4\"/>\n"
      "<text class=\"over\" x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
      f.left, at, width - right, width - right - 4, at - 6, markup(fitted(o.reference_label, f.plot_width())));
}

std::string legend(const std::vector<Series>& series, const Frame& f, const CurveOptions& o) {
  std::string out;
  const auto entries = legend_of(series, f.left, o.title.empty() ? 14 : 36);
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [name, x, y] = entries[i];
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"18\" height=\"4\" fill=\"{}\"/>\n", x, y + 4,
                       colours[i % std::size(colours)]);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 26, y + 11, markup(name));
  }
  return out;
}

}  // namespace

std::string curve_svg(const std::vector<Series>& series, const CurveOptions& options) {
  std::vector<Points> points;
  for (const Series& s : series) points.push_back(drawable_points(s, options.log_y));
  const Frame f = frame_of(points, series, options);
  std::string pale, lines;
  for (size_t i = 0; i < series.size(); ++i) {
    const char* colour = colours[i % std::size(colours)];
    if (series[i].smoothed) pale += line(thinned(points[i], f), f, colour, " class=\"pale\"");
    const Points shown = thinned(series[i].smoothed ? smoothed(points[i]) : points[i], f);
    lines += line(shown, f, colour);
    if (series[i].markers) lines += dots(shown, f, colour);
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" height=\"{1:.0f}\">\n"
             "{2}<rect class=\"ground\" width=\"{0}\" height=\"{1:.0f}\"/>\n",
             width, f.height, style) +
         grid(f) + words(f, options) + pale + lines + reference(f, options) + legend(series, f, options) + "</svg>\n";
}

void save_curve(const Path& path, const std::vector<Series>& series, const CurveOptions& options, Location where) {
  write_file(path, curve_svg(series, options), "save_curve", where);
}

}  // namespace weft::io
