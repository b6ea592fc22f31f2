// Turns gradients of parameters off and on by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "module.hpp"

namespace weft::nn {

/// Turns gradients off for all parameters with names that the ECMAScript regular expression matches, or for all without
/// a pattern. Returns the names of those that changed. Raises ValueError for an invalid pattern.
WEFT_API std::vector<std::string> freeze(const Module& module, std::string_view pattern = {}, Location where = {});
/// Turns gradients on; otherwise as `freeze`.
WEFT_API std::vector<std::string> unfreeze(const Module& module, std::string_view pattern = {}, Location where = {});

}  // namespace weft::nn
