#include <algorithm>

#include <fmt/format.h>

#include "../detail/graph_text.hpp"
#include "../detail/text.hpp"
#include "../detail/ticks.hpp"
#include "memory_notes.hpp"

namespace weft {

namespace {

constexpr double width = 860, left = 84, right = 20, top = 64, height = 240, line_height = 18;
constexpr size_t named_lines = 8;

constexpr const char* style =
    "<style>\n"
    "  text { font: 12px system-ui, \"DejaVu Sans\", sans-serif; fill: #57606a; } .head { font-size: 14px; "
    "font-weight: 600; }\n"
    "  .head, .line { fill: #1f2328; } .ground { fill: #ffffff; } .tick { stroke: #d0d7de; }\n"
    "  .parameter { fill: #54aeff; } .gradient { fill: #fa7a55; } .activation { fill: #4ac26b; } .optimizer { fill: "
    "#a475f9; } .other { fill: #afb8c1; }\n"
    "  .peak { stroke: #cf222e; stroke-dasharray: 4 3; }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #9198a1; } .head, .line { fill: #e6edf3; } .ground { fill: #0d1117; } .tick { stroke: "
    "#3d444d; }\n"
    "    .parameter { fill: #1f6feb; } .gradient { fill: #db6d28; } .activation { fill: #238636; } .optimizer { fill: "
    "#8957e5; } .other { fill: #6e7681; }\n"
    "  }\n"
    "</style>\n";

double x_of(double at) { return left + at * (width - left - right); }

/// The area of one kind in the stacked chart; memory is constant between moments.
std::string area(const std::vector<MemoryMoment>& curve, int kind, double per_byte) {
  const auto y_of = [&](const MemoryMoment& m, int kinds) {
    double bytes = 0;
    for (int k = 0; k < kinds; ++k) bytes += static_cast<double>(m.bytes[k]);
    return top + height - bytes * per_byte;
  };
  std::string upper, lower;
  for (size_t i = 0; i < curve.size(); ++i) {
    const double begin = x_of(curve[i].at), end = i + 1 < curve.size() ? x_of(curve[i + 1].at) : x_of(1);
    const double high = y_of(curve[i], kind + 1), low = y_of(curve[i], kind);
    upper += fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", begin, high, end, high);
    lower = fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", end, low, begin, low) + lower;
  }
  return fmt::format("<polygon class=\"{}\" points=\"{}{}\"/>\n", to_string(static_cast<MemoryKind>(kind)), upper,
                     lower);
}

std::string legend() {
  std::string out;
  double x = left;
  for (int k = 0; k < memory_kind_count; ++k) {
    const std::string_view name = to_string(static_cast<MemoryKind>(k));
    out += fmt::format(
        "<rect class=\"{0}\" x=\"{1}\" y=\"{2}\" width=\"11\" height=\"11\"/><text x=\"{3}\" y=\"{4}\">{0}</text>\n",
        name, x, top - 24, x + 16, top - 14);
    x += 30 + 7.2 * static_cast<double>(name.size());
  }
  return out;
}

std::string text_at(const char* style_class, double x, double y, std::string_view text, const char* more = "") {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", style_class, x, y, more,
                     detail::markup(text));
}

}  // namespace

std::string MemoryHistory::svg(Device device) const {
  const std::vector<MemoryMoment> moments = curve(device, 400);
  const MemorySnapshot highest = peak(device);
  const double largest_sum = std::max<double>(1, static_cast<double>(highest.known())),
               per_byte = height / largest_sum * 0.95;
  std::string body;
  for (int k = 0; k < memory_kind_count; ++k) body += area(moments, k, per_byte);
  double unit = 1;
  while (largest_sum / unit >= 1024) unit *= 1024;
  for (const double tick : detail::round_ticks(0, largest_sum / unit, 4)) {
    const double y = top + height - tick * unit * per_byte;
    body += fmt::format("<path class=\"tick\" d=\"M{} {:.1f}H{}\"/>\n", left - 5, y, width - right);
    body += text_at("", left - 8, y + 4, detail::bytes_text(static_cast<int64_t>(tick * unit)), " text-anchor=\"end\"");
  }
  for (const MemoryMoment& m : moments) {
    if (m.sum() != highest.known()) continue;
    body += fmt::format("<path class=\"peak\" d=\"M{0:.1f} {1}V{2}\"/>\n", x_of(m.at), top, top + height);
    break;
  }
  body += text_at("", left, top + height + line_height, "start of the step");
  body += text_at("", width - right, top + height + line_height, "end", " text-anchor=\"end\"");
  double y = top + height + 3 * line_height;
  body += text_at("head", left, y, "Allocated at the peak");
  for (const std::string& line : detail::lines_of(highest, named_lines)) {
    y += line_height;
    body += text_at("line", left, y, line, " xml:space=\"preserve\"");
  }
  const double total = y + line_height;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n{2}"
      "<rect class=\"ground\" width=\"{0}\" height=\"{1}\"/>\n{3}{4}{5}</svg>\n",
      width, total, style,
      text_at("head", left, 24,
              fmt::format("Memory of {} in one step: {} at most", device.name(),
                          detail::bytes_text(static_cast<int64_t>(highest.known())))),
      legend(), body);
}

}  // namespace weft
