// Unicode characters and their kinds. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::data {

enum class CharacterKind : uint8_t { other, letter, number, space };

/// Kinds of all code points, two bits each; computed on the first call.
const uint8_t* character_kinds();

struct Character {
  uint32_t point;
  uint32_t length;  ///< in bytes; 0 at the end of the text
  CharacterKind kind;
};

/// Returns the length of the well-formed character at the start of a non-empty text, or 0; `good` is set to the number
/// of bytes that form a valid prefix of a character.
size_t utf8_length(std::string_view text, size_t& good);

Character wide_character_at(const uint8_t* kinds, std::string_view text, size_t at);

/// A byte that is not UTF-8 is a separate character of kind `other`.
inline Character character_at(const uint8_t* kinds, std::string_view text, size_t at) {
  if (at >= text.size()) return {0, 0, CharacterKind::other};
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte >= 0x80) return wide_character_at(kinds, text, at);
  return {byte, 1, static_cast<CharacterKind>(kinds[byte >> 2] >> (byte & 3) * 2 & 3)};
}

void append_utf8(std::string& out, uint32_t point);

/// Replaces by U+FFFD each maximal incomplete character and each other byte that is not UTF-8 (Unicode 16, chapter 3.9,
/// "U+FFFD Substitution of Maximal Subparts").
std::string as_utf8(std::string_view bytes);

}  // namespace weft::data
