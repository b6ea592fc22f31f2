// Names that a user's regular expression finds. Internal to nn/.
#pragma once

#include <regex>
#include <string_view>

#include <fmt/format.h>

#include "../tensor/error.hpp"

namespace weft::nn::detail {

/// ValueError of `op` for what is no expression (ECMAScript's).
inline std::regex pattern_of(const char* op, std::string_view text, Location where) {
  try {
    return std::regex(text.begin(), text.end(), std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    raise<ValueError>({.op = op, .problem = fmt::format("\"{}\" is no regular expression: {}", text, error.what())},
                      where);
  }
}

}  // namespace weft::nn::detail
