// What a module's handles share.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "../tensor/atomic.hpp"
#include "config.hpp"
#include "module.hpp"

namespace weft::nn {

namespace detail {

// A module's hooks, made with the first one by whichever thread comes first. A clone starts without.
class HooksSlot {
 public:
  HooksSlot() = default;
  HooksSlot(const HooksSlot&) {}
  ~HooksSlot() { delete get(); }

  ModuleHooks* get() const { return hooks_.load(MemoryOrder::acquire); }
  ModuleHooks& made() {
    if (ModuleHooks* present = get()) return *present;
    auto fresh = std::make_unique<ModuleHooks>();
    ModuleHooks* present = nullptr;
    if (hooks_.compare_exchange_strong(present, fresh.get(), MemoryOrder::acq_rel)) return *fresh.release();
    return *present;
  }

 private:
  Atomic<ModuleHooks*> hooks_{nullptr};
};

/// Moves or converts a tensor that a module holds, with its gradient.
void move_held(Tensor& held, DType dtype, Location where);
/// ValueError for a name that is empty, holds a dot, or is `taken`.
void check_name(const std::string& name, bool taken, Location where);
/// ValueError where `held` is `holder` or holds it.
void check_not_circular(const Module& holder, const Module& held, const std::string& name, Location where);

}  // namespace detail

struct Module::State {
  struct Entry {
    std::string name;
    ModuleTensor tensor;
    bool saved = true;
  };
  std::vector<Entry> parameters, buffers;
  std::vector<std::pair<std::string, Module>> children;
  bool training = true;
  const std::type_info* type = nullptr;
  // In place of the type's.
  std::string class_name;
  std::string extra_repr;
  Config config;
  // ModuleDescription::unknown.
  std::string unknown;
  // Some other module has it as a child.
  bool registered = false;
  // Its members are registered by being assigned, not by WEFT_REGISTER.
  bool open = false;
  detail::HooksSlot hooks;

  bool has(const std::string& name) const {
    const auto named = [&](const Entry& e) { return e.name == name; };
    return std::ranges::any_of(parameters, named) || std::ranges::any_of(buffers, named) ||
           std::ranges::any_of(children, [&](const auto& child) { return child.first == name; });
  }
};

}  // namespace weft::nn
