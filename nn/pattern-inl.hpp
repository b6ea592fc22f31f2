// Names that a user's regular expression finds. Not public.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "../tensor/location.hpp"

namespace weft::nn::detail {

/// An expression as ECMAScript has them. <regex> is compiled for one file alone: it is large.
class Pattern {
 public:
  /// ValueError of `op` for what is none.
  Pattern(const char* op, std::string_view text, Location where);
  /// Whether a part of the name is described, or all of it.
  bool finds(std::string_view name) const;
  bool describes(std::string_view name) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};
/// The expression that finds this text alone.
std::string pattern_of_name(std::string_view name);

}  // namespace weft::nn::detail
