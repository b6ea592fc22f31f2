// Matching of module names with regular expressions. Not public.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "../tensor/location.hpp"

namespace weft::nn::detail {

/// An ECMAScript regular expression. Hides <regex>, which is slow to compile.
class Pattern {
 public:
  /// Raises ValueError of `op` for an invalid expression.
  Pattern(const char* op, std::string_view text, Location where);
  /// Whether the expression matches a part of the name, or all of it.
  bool finds(std::string_view name) const;
  bool describes(std::string_view name) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};
/// An expression that matches exactly this text.
std::string pattern_of_name(std::string_view name);

}  // namespace weft::nn::detail
