// Shortens text from a caller or a file for use in a message.
#pragma once

#include <string>

#include "config.hpp"

namespace weft {

/// `text`, or its beginning and end around " ... " where it has more than `most` bytes (at least 16); UTF-8 characters
/// are never split.
WEFT_API std::string shortened(std::string text, size_t most = 400);

}  // namespace weft
