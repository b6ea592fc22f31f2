#include "../saved_part.hpp"

#include <fmt/format.h>

#include "../../hooks/detail/text.hpp"
#include "../../io/json/json_tree-inl.hpp"

namespace weft::train {

namespace detail {

std::string numbers_text(const std::map<std::string, double>& numbers) {
  std::string out = "{";
  for (const auto& [name, value] : numbers) {
    out += fmt::format("{}{}: {}", out.size() > 1 ? ", " : "", weft::detail::json_text(name),
                       weft::detail::json_number(value, 17));
  }
  return out + "}";
}

std::map<std::string, double> numbers_in(const std::string& text) {
  const io::JsonTree tree = io::parse_json(text, "Trainer", Location::none());
  std::map<std::string, double> out;
  io::JsonPlace(tree, "Trainer", Location::none()).each_field([&](const std::string& name, const io::JsonPlace& value) {
    out[name] = value.number();
  });
  return out;
}

}  // namespace detail

}  // namespace weft::train
