// Files of JSON, a value on each line. Internal to io/.
#pragma once

#include <algorithm>
#include <string_view>

#include "../json/json_tree-inl.hpp"

namespace weft::io {

/// Calls f(line with its end, its JSON) for each line that is one. What is none, as where a run was killed or f raises
/// FormatError, is left out.
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
