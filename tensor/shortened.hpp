// Text for a message: what a caller or a file gave may be long, a message is not.
#pragma once

#include <string>

#include "config.hpp"

namespace weft {

/// `text`, or its beginning and end around " ... " where it has more than `most` bytes (at least 16); no character of
/// UTF-8 is cut through.
WEFT_API std::string shortened(std::string text, size_t most = 400);

}  // namespace weft
