#include "../evaluation.hpp"

#include <fmt/format.h>

#include "../../tensor/error.hpp"

namespace weft::train {

void* Evaluation::find(const FigureName& name, TypeId type) const {
  for (const Entry& entry : entries_) {
    if (entry.name != name.text) continue;
    if (entry.type == type) return entry.held.get();
    raise<ValueError>({.op = "Evaluation", .problem = fmt::format("\"{}\" is the name of two metrics", name.text)},
                      name.where);
  }
  return nullptr;
}

io::Figures Evaluation::figures() const {
  io::Figures out;
  for (const Entry& entry : entries_) {
    if (entry.value) out.emplace_back(entry.name, entry.value());
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> Evaluation::pictures() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Entry& entry : entries_) {
    if (entry.picture) out.emplace_back(entry.name, entry.picture());
  }
  return out;
}

}  // namespace weft::train
