#include "characters-inl.hpp"

#include <algorithm>
#include <vector>

namespace weft::data {

namespace {

struct Range {
  uint32_t first, last;
  CharacterKind kind;
};
constexpr CharacterKind letter = CharacterKind::letter, number = CharacterKind::number, space = CharacterKind::space;
constexpr Range ranges[] = {
#include "unicode_classes.inc"
};
constexpr uint32_t code_points = 0x110000;

std::vector<uint8_t> make_kinds() {
  std::vector<uint8_t> kinds(code_points / 4);
  for (const Range& range : ranges) {
    for (uint32_t point = range.first; point <= range.last; ++point) {
      kinds[point >> 2] =
          static_cast<uint8_t>(kinds[point >> 2] | static_cast<unsigned>(range.kind) << (point & 3) * 2);
    }
  }
  return kinds;
}

}  // namespace

const uint8_t* character_kinds() {
  static const std::vector<uint8_t> kinds = make_kinds();
  return kinds.data();
}

size_t utf8_length(std::string_view text, size_t& good) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const uint8_t lead = byte(0);
  good = 1;
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte alone excludes overlong forms, surrogates and code points above U+10FFFF.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (good = 2; good < length; ++good) {
    if ((byte(good) & 0xC0) != 0x80) return 0;
  }
  return length;
}

Character wide_character_at(const uint8_t* kinds, std::string_view text, size_t at) {
  size_t good;
  const size_t length = utf8_length(text.substr(at, 4), good);
  if (length == 0) return {code_points, 1, CharacterKind::other};
  uint32_t point = static_cast<uint8_t>(text[at]) & 0xFFu >> (length + 1);
  for (size_t i = 1; i < length; ++i) point = point << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3Fu);
  return {point, static_cast<uint32_t>(length), static_cast<CharacterKind>(kinds[point >> 2] >> (point & 3) * 2 & 3)};
}

void append_utf8(std::string& out, uint32_t point) {
  const auto tail = [&](unsigned shift) { out.push_back(static_cast<char>(0x80 | (point >> shift & 0x3F))); };
  if (point < 0x80) return out.push_back(static_cast<char>(point));
  if (point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | point >> 6));
  } else {
    if (point < 0x10000) {
      out.push_back(static_cast<char>(0xE0 | point >> 12));
    } else {
      out.push_back(static_cast<char>(0xF0 | point >> 18));
      tail(12);
    }
    tail(6);
  }
  tail(0);
}

std::string as_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    size_t good;
    const size_t length = utf8_length(bytes, good);
    if (length == 0) out += "\xEF\xBF\xBD";
    else out += bytes.substr(0, length);
    bytes.remove_prefix(std::max(length, good));
  }
  return out;
}

}  // namespace weft::data
