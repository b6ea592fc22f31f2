#include "axis-inl.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "../../hooks/detail/ticks.hpp"
#include "../json/utf8-inl.hpp"

namespace weft::io {

namespace {

// Limits that keep differences finite and steps normal.
constexpr double smallest = 1e-300, largest = 1e300;

// Formats a label with as many decimals as the axis step needs.
std::string label_of(double value, double step, double largest_value) {
  struct Unit {
    double size;
    const char* name;
  };
  constexpr Unit units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1, ""}};
  if (std::abs(value) < step / 2) return "0";
  if (largest_value >= 1e15 || largest_value < 1e-3) {
    const int digits = 1 + static_cast<int>(std::ceil(std::log10(largest_value / step)));
    return fmt::format("{:.{}g}", value, std::max(3, digits));
  }
  const Unit unit = *std::ranges::find_if(units, [&](const Unit& u) { return largest_value >= u.size || u.size == 1; });
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step / unit.size) + 1e-9)));
  return fmt::format("{:.{}f}{}", value / unit.size, decimals, unit.name);
}

// Latin, Greek and Cyrillic letters are about half as wide as high; characters of three bytes may be square.
double character_width(std::string_view character, double size) { return size * (character.size() < 3 ? 0.58 : 1.02); }

// Replaces characters that are invalid in XML, which would make the whole picture unreadable.
std::string_view printable(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  return lead < 0x20 || lead == 0x7F ? " " : lead >= 0x80 && character.size() == 1 ? "\uFFFD" : character;
}

}  // namespace

double Axis::share(double value) const {
  if (logarithmic) return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  return (value - low) / (high - low);
}

Axis linear_axis(double low, double high, bool whole) {
  low = std::clamp(low, -largest, largest), high = std::clamp(high, -largest, largest);
  if (!(high - low > smallest)) high = low + std::max(1.0, std::abs(low) / 8);
  // With smaller steps, neighbouring ticks would have the same label.
  double step = std::max(detail::round_step(high - low, 7.5), std::max(std::abs(low), std::abs(high)) * 1e-12);
  if (whole) step = std::max(1.0, step);
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  Axis axis{first * step, last * step};
  const double largest_magnitude = std::max(std::abs(axis.low), std::abs(axis.high));
  for (double i = first; i <= last; ++i) axis.ticks.push_back({i * step, label_of(i * step, step, largest_magnitude)});
  return axis;
}

Axis logarithmic_axis(double low, double high) {
  constexpr double factors[] = {1, 2, 5};
  low = std::clamp(low, smallest, largest), high = std::clamp(high, low, largest);
  const int lowest = static_cast<int>(std::floor(std::log10(low) + 1e-9));
  const int decades = static_cast<int>(std::ceil(std::log10(high) - 1e-9)) - lowest;
  const int step = decades > 6 ? (decades + 5) / 6 : 1;
  std::vector<double> values;
  for (int decade = lowest; values.empty() || values.back() < high * (1 - 1e-9); decade += step) {
    for (const double factor : factors) {
      if (factor == 1 || decades <= 2) values.push_back(factor * std::pow(10, decade));
    }
  }
  const auto from = std::prev(std::ranges::upper_bound(values, low * (1 + 1e-9)));
  const auto to = std::ranges::lower_bound(values, high * (1 - 1e-9));
  Axis axis{*from, *to, true};
  for (auto value = from; value <= to; ++value) axis.ticks.push_back({*value, fmt::format("{:g}", *value)});
  if (from == to) axis.high = *from * 2, axis.ticks.push_back({axis.high, fmt::format("{:g}", axis.high)});
  return axis;
}

double width_of(std::string_view text, double size) {
  double width = 0;
  for_each_character(text, [&](std::string_view c) { width += character_width(c, size); });
  return width;
}

std::string fitted(std::string_view text, double width, double size) {
  const bool whole = width_of(text, size) <= width;
  double used = whole ? 0 : size;  // for the dots
  bool full = false;
  std::string out;
  for_each_character(text, [&](std::string_view c) {
    full = full || (used += character_width(c, size)) > width;
    if (!full) out += printable(c);
  });
  return whole ? out : out + "…";
}

}  // namespace weft::io
