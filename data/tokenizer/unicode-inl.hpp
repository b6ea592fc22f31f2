// What Unicode says of characters beyond their kinds. All but `is_there` take utf8proc. Internal to data/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::data {

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };

namespace unicode {

/// Whether this build has utf8proc.
bool is_there();

/// Whether nothing before a character changes what it and what follows become in a normal form, or is changed by it.
bool starts_anew(uint32_t point, NormalForm form);
/// The normal form of a text that starts anew.
std::vector<int32_t> normal_form(const std::vector<int32_t>& points, NormalForm form);

/// Each character for itself, "İ" as "i̇".
std::string lowercase(uint32_t point);
/// Of the categories M*.
bool is_mark(uint32_t point);
/// Of the categories P*, or one of ASCII's signs.
bool is_punctuation(uint32_t point);
/// \w of Unicode's standard on regular expressions (UTS #18, annex C).
bool is_word(uint32_t point);

}  // namespace unicode
}  // namespace weft::data
