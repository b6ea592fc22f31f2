// Parameters without gradients, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "module.hpp"

namespace weft::nn {

/// Switches gradients off for all parameters whose names the regular expression (ECMAScript's) finds, or for all;
/// returns the names of those that had them. ValueError for a pattern that is none.
WEFT_API std::vector<std::string> freeze(const Module& module, std::string_view pattern = {}, Location where = {});
/// The other way round.
WEFT_API std::vector<std::string> unfreeze(const Module& module, std::string_view pattern = {}, Location where = {});

}  // namespace weft::nn
