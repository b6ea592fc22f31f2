// Shortens text from a caller or a file for an error message.
#pragma once

#include <string>

#include "config.hpp"

namespace weft {

/// Returns `text`, or its beginning and end joined by " ... " if it exceeds `most` bytes (at least 16). Never splits
/// UTF-8 characters.
WEFT_API std::string shortened(std::string text, size_t most = 400);

}  // namespace weft
