#include "../saved_part.hpp"

#include <fmt/format.h>

#include "../../hooks/detail/text.hpp"
#include "../../io/json/json_tree-inl.hpp"
#include "../../ops/create.hpp"
#include "step-inl.hpp"

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
  io::JsonNode(tree, "Trainer", Location::none()).each_field([&](const std::string& name, const io::JsonNode& value) {
    out[name] = value.number();
  });
  return out;
}

namespace {

/// The current state, with copies of the tensors.
PartState copied_state(const SavedPart& part) {
  PartState state = part.state();
  for (auto& [name, tensor] : state.tensors) tensor = tensor.detach().clone();
  return state;
}

}  // namespace

void restore_parts(std::span<const std::pair<SavedPart, PartState>> parts, const std::string& found_in) {
  std::vector<PartState> before;
  try {
    for (const auto& [part, state] : parts) {
      before.push_back(copied_state(part));
      at([&] { return fmt::format("\"{}\" in {}", part.name, found_in); }, [&] { part.restore(state); });
    }
  } catch (...) {
    for (size_t i = before.size(); i-- > 0;) {
      try {
        parts[i].first.restore(before[i]);
      } catch (...) {  // the first error is already propagating
      }
    }
    throw;
  }
}

}  // namespace detail

}  // namespace weft::train
