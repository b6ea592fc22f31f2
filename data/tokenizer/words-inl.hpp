// Word boundaries. Internal to data/.
#pragma once

#include <string_view>

#include "../tokenizer.hpp"

namespace weft::data {

/// Returns the end of the word at `begin`, which is within the text.
size_t word_end(WordPattern pattern, const uint8_t* kinds, std::string_view text, size_t begin);

/// Returns the pattern that equals this regular expression, or nothing.
std::optional<WordPattern> pattern_of(std::string_view expression);
/// Returns an equivalent expression; that of gpt2 is ByteLevel's built-in one.
std::string_view expression_of(WordPattern pattern);

}  // namespace weft::data
