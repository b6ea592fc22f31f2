// Characters of a text. Internal to io/.
#pragma once

#include <cstddef>
#include <string_view>

namespace weft::io {

/// Length in bytes of the first character of a non-empty text; 1 where that is not well-formed UTF-8.
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

}  // namespace weft::io
