// Unicode properties and normal forms, by utf8proc; only `is_there` works without it. Internal to data/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::data {

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };

namespace unicode {

/// Whether this build has utf8proc.
bool is_there();

/// Whether normalization can start at this character: it does not interact with earlier characters.
bool starts_anew(uint32_t point, NormalForm form);
/// Returns the normal form of a text that begins with such a character.
std::vector<int32_t> normal_form(const std::vector<int32_t>& points, NormalForm form);

/// Lowercases a single character; "İ" becomes "i̇".
std::string lowercase(uint32_t point);
/// Categories M*.
bool is_mark(uint32_t point);
/// Categories P*, and ASCII symbols.
bool is_punctuation(uint32_t point);
/// \w in Unicode's standard on regular expressions (UTS #18, annex C).
bool is_word(uint32_t point);

}  // namespace unicode
}  // namespace weft::data
