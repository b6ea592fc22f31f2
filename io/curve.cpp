#include <weft/io/curve.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <weft/io/file.hpp>

namespace weft::io {

namespace {

constexpr double width = 720, height = 420, left = 64, right = 24, top = 44, bottom = 56;
constexpr const char* colours[] = {"#3b82c4", "#e0752b", "#3f9b57", "#b0569f"};

constexpr const char* style =
    "<style>\n"
    "  text { font: 13px system-ui, sans-serif; fill: #24292f; }\n"
    "  .title { font-size: 15px; font-weight: 600; }\n"
    "  .ground { fill: #ffffff; } .grid { stroke: #d8dee4; } .axis { stroke: #6e7781; } .guess { stroke: #8c959f; }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #e6edf3; }\n"
    "    .ground { fill: #0d1117; } .grid { stroke: #30363d; } .axis { stroke: #8b949e; } .guess { stroke: #6e7681; }\n"
    "  }\n"
    "</style>\n";

struct Range {
  double low, high, step;

  // Round steps of 1, 2 or 5 times a power of ten, five or so of them.
  static Range around(double low, double high) {
    if (!(high > low)) high = low + 1;
    const double rough = (high - low) / 5;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double factor = rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10;
    const double step = factor * power;
    return {std::floor(low / step) * step, std::ceil(high / step - 1e-9) * step, step};
  }
  double share(double value) const { return (value - low) / (high - low); }
};

double across(const Range& x, double value) { return left + x.share(value) * (width - left - right); }
double down(const Range& y, double value) { return height - bottom - y.share(value) * (height - top - bottom); }

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '&') out += "&amp;";
    else out += c;
  }
  return out;
}

bool finite(const std::pair<double, double>& p) { return std::isfinite(p.first) && std::isfinite(p.second); }

std::string grid(const Range& x, const Range& y) {
  std::string out;
  for (int i = 0; y.low + i * y.step <= y.high + y.step / 2; ++i) {
    const double value = y.low + i * y.step, at = down(y, value);
    out += fmt::format("<line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>\n", left, at,
                       width - right, at);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n", left - 8, at + 4, value);
  }
  for (int i = 0; x.low + i * x.step <= x.high + x.step / 2; ++i) {
    const double value = x.low + i * x.step, at = across(x, value);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.6g}</text>\n", at, height - bottom + 20,
                       value);
  }
  out += fmt::format("<line class=\"axis\" x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\"/>\n", left, height - bottom,
                     width - right);
  return out;
}

std::string drawn(const Series& series, const char* colour, const Range& x, const Range& y) {
  std::string path, dots;
  for (const auto& point : series.points) {
    if (!finite(point)) continue;
    const double px = across(x, point.first), py = down(y, point.second);
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", px, py);
    if (series.markers)
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", px, py, colour);
  }
  return fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" "
      "stroke-linejoin=\"round\"/>\n{}",
      path, colour, dots);
}

std::string words(const CurveOptions& o) {
  const double middle = (left + width - right) / 2, beside = (top + height - bottom) / 2;
  return fmt::format(
      "<text class=\"title\" x=\"{0}\" y=\"24\">{1}</text>\n"
      "<text x=\"{2}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n"
      "<text x=\"18\" y=\"{5}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {5})\">{6}</text>\n",
      left, escaped(o.title), middle, height - 14, escaped(o.x_label), beside, escaped(o.y_label));
}

}  // namespace

std::string curve_svg(const std::vector<Series>& series, const CurveOptions& options) {
  double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = -INFINITY;
  const auto widen = [](double& low, double& high, double v) { low = std::min(low, v), high = std::max(high, v); };
  for (const Series& s : series) {
    for (const auto& point : s.points) {
      if (finite(point)) widen(x_low, x_high, point.first), widen(y_low, y_high, point.second);
    }
  }
  if (!std::isfinite(x_low)) x_low = y_low = 0, x_high = y_high = 1;
  if (!options.reference_label.empty()) widen(y_low, y_high, options.reference);
  const Range x = Range::around(x_low, x_high), y = Range::around(std::min(y_low, y_low > 0 ? 0.0 : y_low), y_high);

  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n{2}"
      "<rect class=\"ground\" width=\"{0}\" height=\"{1}\"/>\n",
      width, height, style);
  out += grid(x, y) + words(options);
  if (!options.reference_label.empty()) {
    const double at = down(y, options.reference);
    out += fmt::format(
        "<line class=\"guess\" x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\" stroke-dasharray=\"5 4\"/>\n", left,
        at, width - right);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", width - right - 4, at - 6,
                       escaped(options.reference_label));
  }
  // The legend stands right of the title, outside the curves.
  double legend = width - right - 120 * static_cast<double>(series.size());
  for (size_t i = 0; i < series.size(); ++i, legend += 120) {
    const char* colour = colours[i % std::size(colours)];
    out += drawn(series[i], colour, x, y);
    out += fmt::format("<rect x=\"{}\" y=\"18\" width=\"18\" height=\"4\" fill=\"{}\"/>\n", legend, colour);
    out += fmt::format("<text x=\"{}\" y=\"24\">{}</text>\n", legend + 26, escaped(series[i].name));
  }
  return out + "</svg>\n";
}

void save_curve(const Path& path, const std::vector<Series>& series, const CurveOptions& options, Location where) {
  write_file(path, curve_svg(series, options), "save_curve", where);
}

}  // namespace weft::io
