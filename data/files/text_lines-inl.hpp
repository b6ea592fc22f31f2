// Lines of a text in memory. Internal to data/.
#pragma once

#include <string_view>

namespace weft::data {

/// Returns the text without its byte-order mark.
inline std::string_view without_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

/// Removes the first line from a non-empty text and returns it without its "\n" or "\r\n".
inline std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  if (end != text.npos && line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace weft::data
