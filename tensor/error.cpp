#include <weft/tensor/error.hpp>

#include <fmt/format.h>

namespace weft {

std::string Location::text() const {
  return known() ? fmt::format("{}:{}", file(), line()) : std::string("an unknown place");
}

std::string format_error(const ErrorText& text, Location where) {
  std::string out = fmt::format("[{}] {}", text.op, text.problem);
  if (!text.details.empty()) out += fmt::format("\n  {}", text.details);
  if (!text.remedy.empty()) out += fmt::format("\n  {}", text.remedy);
  if (!where.known()) return out;
  const bool named = *text.event != '\0';
  out += text.remedy.empty() ? "\n  " : (named ? "; " : ", ");
  out += fmt::format("{}{}at {}", text.event, named ? " " : "", where.text());
  return out;
}

}  // namespace weft
