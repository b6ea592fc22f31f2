#include <regex>

#include <fmt/format.h>

#include "../tensor/error.hpp"
#include "pattern-inl.hpp"

namespace weft::nn::detail {

struct Pattern::Compiled {
  std::regex expression;
};

Pattern::Pattern(const char* op, std::string_view text, Location where) {
  try {
    compiled_ = std::make_shared<Compiled>(Compiled{std::regex(text.begin(), text.end(), std::regex::ECMAScript)});
  } catch (const std::regex_error& error) {
    raise<ValueError>({.op = op, .problem = fmt::format("\"{}\" is no regular expression: {}", text, error.what())},
                      where);
  }
}

bool Pattern::finds(std::string_view name) const {
  return std::regex_search(name.begin(), name.end(), compiled_->expression);
}
bool Pattern::describes(std::string_view name) const {
  return std::regex_match(name.begin(), name.end(), compiled_->expression);
}

std::string pattern_of_name(std::string_view name) {
  std::string out = "^";
  for (const char c : name) {
    if (std::string_view(R"(.^$|()[]{}*+?\)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + '$';
}

}  // namespace weft::nn::detail
