// Where words end. Internal to data/.
#pragma once

#include <string_view>

#include "../tokenizer.hpp"

namespace weft::data {

/// The end of the word that starts at `begin`, which lies inside the text.
size_t word_end(WordPattern pattern, const uint8_t* kinds, std::string_view text, size_t begin);

/// The pattern of this regular expression, or nothing.
std::optional<WordPattern> pattern_of(std::string_view expression);
/// An expression that says the same; gpt2's is what ByteLevel has of its own.
std::string_view expression_of(WordPattern pattern);

}  // namespace weft::data
