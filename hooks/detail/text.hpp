// Text in JSON, HTML and SVG. Not public.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace weft::detail {

/// Returns a quoted JSON string. '<' is escaped too, so that it is safe in a script element.
inline std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (u < 0x20 || c == '<') out += fmt::format("\\u{:04x}", u);
    else out += c;
  }
  return out + '"';
}

/// JSON has no such numbers: "NaN", "Infinity" or "-Infinity".
inline std::string json_not_finite(double v) {
  return std::isnan(v) ? "\"NaN\"" : v > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}
/// Returns the shortest digits that round-trip, as a float if v is one.
inline std::string json_number(double v) {
  if (!std::isfinite(v)) return json_not_finite(v);
  const auto narrow = static_cast<float>(v);
  return narrow == v ? fmt::format("{}", narrow) : fmt::format("{}", v);
}
inline std::string json_number(double v, int digits) {
  return std::isfinite(v) ? fmt::format("{:.{}g}", v, digits) : json_not_finite(v);
}

inline std::string markup(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace weft::detail
