// The recomputation has copies of the module and its arguments, so neither must live until backward. A function with
// side effects can test `recomputing()`.
#include "checkpointing.hpp"

#include <fmt/format.h>

#include "module_state-inl.hpp"
#include "pattern-inl.hpp"

namespace weft::nn {

void checkpoint_module(const Module& module, bool on) {
  detail::HooksSlot& hooks = detail::StateAccess::state(module).hooks;
  if (on || hooks.get() != nullptr) hooks.get_or_make().recomputes = on;
}

bool is_checkpointed(const Module& module) {
  const detail::ModuleHooks* hooks = detail::StateAccess::state(module).hooks.get();
  return hooks != nullptr && hooks->recomputes.load(MemoryOrder::relaxed);
}

std::vector<std::string> set_checkpointing(const Module& model, std::string_view pattern, bool on, Location where) {
  const detail::Pattern expression("set_checkpointing", pattern, where);
  std::vector<std::string> names;
  for (const auto& [name, module] : model.named_modules()) {
    if (name.empty() || !expression.finds(name)) continue;
    checkpoint_module(module, on);
    names.push_back(name);
  }
  if (names.empty()) {
    raise<ValueError>({.op = "set_checkpointing", .problem = fmt::format("\"{}\" finds no module", pattern)}, where);
  }
  return names;
}

}  // namespace weft::nn
