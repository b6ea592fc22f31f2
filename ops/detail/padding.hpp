// Names of ways of padding. Not public.
#pragma once

#include <string>

#include "../pad.hpp"

namespace weft {

/// "constant", "reflect", "replicate" or "circular"; ValueError for others.
Padding padding_named(const std::string& name);

}  // namespace weft
