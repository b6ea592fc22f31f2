#include "open_module.hpp"

#include <fmt/format.h>

#include "lora/low_rank-inl.hpp"
#include "module_state-inl.hpp"
#include "../ops/detail/common.hpp"

namespace weft::nn {

namespace {

template <class Entries>
bool erase_entry(Entries& entries, std::string_view name) {
  return std::erase_if(entries, [&](const auto& e) { return e.name == name; }) > 0;
}

template <class Children>
bool erase_child(Children& children, std::string_view name) {
  return std::erase_if(children, [&](const auto& child) { return child.first == name; }) > 0;
}

using detail::find_entry, detail::held_as_it_is;

template <class Entries>
void set_entry(Entries& entries, const std::string& name, const Tensor& tensor, bool saved) {
  if (auto* present = find_entry(entries, name)) *present = {name, held_as_it_is(tensor), saved};
  else entries.push_back({name, held_as_it_is(tensor), saved});
}

// A member of a C++ class is replaced there, too. Raises if the name belongs to a C++ member of another type.
detail::Slot* checked_slot(const detail::Slots& slots, const std::string& name, detail::Slot::Kind kind,
                           Location where) {
  detail::Slot* slot = slots.find(name);
  if (slot == nullptr || (slot->member_tensors().empty() && slot->member_modules().empty())) return nullptr;
  if (slot->kind == kind && kind != detail::Slot::Kind::child) return slot;
  constexpr const char* kinds[] = {"parameter", "buffer", "module"};
  raise<ValueError>({.op = "nn::OpenModule",
                     .problem = fmt::format("\"{}\" is a {} of a module that computes in C++, and stays one", name,
                                            kinds[static_cast<int>(slot->kind)]),
                     .remedy = "replace its parameters, or the whole module that computes"},
                    where);
}

template <class Entries>
std::vector<std::string> names_of(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

// Whether it is the child that holds the originals; it is removed only together with them.
bool holds_lists(const Module& module, std::string_view name) {
  return name == detail::parametrizations && is_parametrized(module);
}

}  // namespace

OpenModule::OpenModule(std::string class_name) : OpenModule(Module(), std::move(class_name)) {}

OpenModule::OpenModule(const Module& module, std::string class_name) : Module(module) {
  state_->class_name = std::move(class_name);
  state_->open = true;
}

Tensor OpenModule::own(const Tensor& tensor, Location where) { return Buffer(tensor, where); }

void OpenModule::set_parameter(const std::string& name, const Tensor& tensor, Location where) {
  detail::check_name(name, is_parametrized(*this, name), where);
  checked(tensor, "nn::OpenModule", where);
  detail::Slot::check_replaceable(*state_, name, where);
  if (auto* slot = checked_slot(state_->slots, name, detail::Slot::Kind::parameter, where)) return slot->set(tensor);
  state_->changes.note();
  set_entry(state_->parameters, name, tensor, true);
  erase_entry(state_->buffers, name);
  erase_child(state_->children, name);
}

void OpenModule::set_buffer(const std::string& name, const Tensor& tensor, bool saved, Location where) {
  detail::check_name(name, is_parametrized(*this, name), where);
  checked(tensor, "nn::OpenModule", where);
  detail::Slot::check_replaceable(*state_, name, where);
  if (auto* slot = checked_slot(state_->slots, name, detail::Slot::Kind::buffer, where)) return slot->set(tensor);
  state_->changes.note();
  set_entry(state_->buffers, name, tensor, saved);
  erase_entry(state_->parameters, name);
  erase_child(state_->children, name);
}

void OpenModule::set_module(const std::string& name, const Module& module, Location where) {
  const std::optional<Module> before = child(name);
  const bool is_other = before && !before->same_as(module);
  detail::check_name(name, is_parametrized(*this, name) || (holds_lists(*this, name) && is_other), where);
  detail::check_not_circular(*state_, module, name, where);
  if (before && !is_other) return;
  checked_slot(state_->slots, name, detail::Slot::Kind::child, where);
  state_->changes.note();
  auto& children = state_->children;
  const auto present = std::ranges::find_if(children, [&](const auto& child) { return child.first == name; });
  if (present != children.end()) present->second = module;
  else children.emplace_back(name, module);
  erase_entry(state_->parameters, name);
  erase_entry(state_->buffers, name);
  module.state_->registered = true;
}

bool OpenModule::remove(std::string_view name) {
  if (holds_lists(*this, name)) return false;
  state_->changes.note();
  if (const detail::Slot* slot = state_->slots.find(name)) {
    if (auto* member = checked_slot(state_->slots, std::string(name), slot->kind, Location::none())) {
      member->set(Tensor());
      return true;
    }
  }
  return erase_entry(state_->parameters, name) || erase_entry(state_->buffers, name) ||
         erase_child(state_->children, name);
}

Tensor OpenModule::parameter(std::string_view name) const {
  const auto* entry = find_entry(state_->parameters, name);
  if (entry == nullptr) return {};
  return entry->tensor;
}

Tensor OpenModule::buffer(std::string_view name) const {
  const auto* entry = find_entry(state_->buffers, name);
  if (entry == nullptr) return {};
  return entry->tensor;
}

std::optional<Module> OpenModule::child(std::string_view name) const {
  for (const auto& [own, module] : state_->children) {
    if (own == name) return module;
  }
  return {};
}

std::vector<std::string> OpenModule::parameter_names() const { return names_of(state_->parameters); }
std::vector<std::string> OpenModule::buffer_names() const { return names_of(state_->buffers); }

bool OpenModule::is_saved(std::string_view buffer) const {
  const auto* entry = find_entry(state_->buffers, buffer);
  return entry != nullptr && entry->saved;
}

int64_t OpenModule::references_to(const Tensor& tensor) const {
  const auto is_it = [&](const Tensor& other) { return other.impl() == tensor.impl(); };
  int64_t count = 0;
  for (const auto* entries : {&state_->parameters, &state_->buffers}) {
    count += std::ranges::count_if(*entries, [&](const auto& entry) { return is_it(entry.tensor); });
  }
  for (const auto& slot : state_->slots.all) {
    count += std::ranges::count_if(slot->member_tensors(), [&](const ModuleTensor* member) { return is_it(*member); });
  }
  return count;
}

int64_t OpenModule::references_to(const Module& child) const {
  int64_t count =
      std::ranges::count_if(state_->children, [&](const auto& entry) { return entry.second.same_as(child); });
  for (const auto& slot : state_->slots.all) {
    count +=
        std::ranges::count_if(slot->member_modules(), [&](const Module* member) { return member->same_as(child); });
  }
  return count;
}

int64_t OpenModule::handles() const { return state_.owners(); }

void OpenModule::set_dtype(std::string_view name, DType dtype, Location where) {
  auto* entry = find_entry(state_->parameters, name);
  if (entry == nullptr) entry = find_entry(state_->buffers, name);
  if (entry == nullptr) {
    raise<KeyError>({.op = "nn::OpenModule", .problem = fmt::format("there is no tensor \"{}\"", name)}, where);
  }
  detail::move_held(entry->tensor, dtype, where);
}

void OpenModule::set_config(const Config& config) {
  state_->config = config;
  const detail::LowRank* adapter = detail::adapter_of(*this);
  if (adapter != nullptr && detail::is_own(*this, *adapter)) detail::write_options(state_->config, adapter->options);
}

void OpenModule::set_training(bool on) {
  state_->training = on;
  detail::follow_mode(*this);
}

}  // namespace weft::nn
