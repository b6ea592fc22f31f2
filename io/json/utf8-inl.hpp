// Characters of a text. Internal to io/ and data/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft::io {

/// Length in bytes of the first character of a non-empty text; 1 if it is not well-formed UTF-8.
inline size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : (lead & 0xF0) == 0xE0       ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 1;
  if (length > text.size()) return 1;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 1;
  }
  return length;
}

template <class F>
void for_each_character(std::string_view text, F&& f) {
  while (!text.empty()) {
    const size_t length = character_length(text);
    f(text.substr(0, length));
    text.remove_prefix(length);
  }
}

inline bool is_utf8(std::string_view text) {
  bool good = true;
  for_each_character(text,
                     [&](std::string_view c) { good &= c.size() > 1 || static_cast<unsigned char>(c[0]) < 0x80; });
  return good;
}

/// Quotes a name from a file for a one-line error: unprintable characters are escaped, long names are truncated.
inline std::string quoted(std::string_view text) {
  constexpr size_t limit = 80;
  constexpr const char* digits = "0123456789abcdef";
  std::string out = "\"";
  for_each_character(text.substr(0, limit), [&](std::string_view c) {
    const auto first = static_cast<unsigned char>(c[0]);
    if (c.size() > 1 || (first >= 0x20 && first < 0x7F)) out += c;
    else out.append("\\x").append(1, digits[first >> 4]).append(1, digits[first & 15]);
  });
  return out + (text.size() > limit ? "…\"" : "\"");
}

}  // namespace weft::io
