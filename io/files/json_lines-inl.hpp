// Files with one JSON value per line. Internal to io/.
#pragma once

#include <algorithm>
#include <string_view>

#include "../json/json_tree-inl.hpp"

namespace weft::io {

/// Calls f(line with its end, its JSON) for each valid line. Malformed lines, as after a killed run, are skipped, and
/// so are lines for which f raises FormatError.
template <class F>
void for_each_json_line(std::string_view text, const char* op, F f) {
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size() - 1) + 1;
    const std::string_view line = text.substr(from, end - from);
    from = end;
    try {
      f(line, parse_json(line, op, Location::none()));
    } catch (const FormatError&) {
    }
  }
}

}  // namespace weft::io
