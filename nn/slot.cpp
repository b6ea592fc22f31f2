// Slots link registered members to the registry, so that assigning to a member also changes the registry.
//
// A slot stores the registry entry, the offset of the member from its module and the objects that refer to it. An
// assigned tensor or module is a member if the recorded module address lies at that offset before it. Entry and
// member are then replaced in every copy of the module. Elements of containers are found by address, because copies
// share them.
#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "containers.hpp"
#include "module_state-inl.hpp"

namespace weft::nn {

namespace detail {

namespace {

/// Guards all slots, which change when modules are constructed, copied and assigned to.
constinit std::mutex slots_in_use;

const void* before(const void* address, ptrdiff_t offset) { return static_cast<const char*>(address) - offset; }

auto& list_of(Slot& slot, const ModuleTensor&) { return slot.tensors; }
auto& list_of(Slot& slot, const Module&) { return slot.modules; }

template <class Held>
void move_to(Held& shows, Link& link, Shared<Slot>& present, Shared<Slot>& slot) {
  if (present == slot) return;
  const std::lock_guard lock(slots_in_use);
  LinkedList<Held>::remove(link);
  if (slot != nullptr) list_of(*slot, shows).add(shows, link);
  std::swap(present, slot);
}

/// The position of an absent member's entry that preserves the order of registration.
template <class Entries>
auto place_of(Entries& entries, const Slots& slots, const Slot& absent) {
  bool behind = false;
  for (const Shared<Slot>& slot : slots.all) {
    const auto found = std::ranges::find(
        entries, slot->name, [](const auto& entry) -> auto& { return entry.name; });
    if (behind && slot->kind == absent.kind && found != entries.end()) return found;
    behind |= slot.get() == &absent;
  }
  return entries.end();
}

}  // namespace

bool Slot::has_at(const void* address) const {
  if (owner == nullptr) return false;
  return home != nullptr ? home == address : owner->slots.modules.contains(before(address, offset));
}

bool Slot::is_member(const ModuleTensor& tensor) {
  if (tensor.slot_ == nullptr) return false;
  const std::lock_guard lock(slots_in_use);
  return tensor.slot_->has_at(&tensor);
}

bool Slot::is_member(const Module& module) {
  if (module.slot_ == nullptr) return false;
  const std::lock_guard lock(slots_in_use);
  return module.slot_->has_at(&module);
}

std::vector<ModuleTensor*> Slot::member_tensors() const {
  const std::lock_guard lock(slots_in_use);
  return tensors.select([&](const ModuleTensor* t) { return has_at(t); });
}

std::vector<Module*> Slot::member_modules() const {
  const std::lock_guard lock(slots_in_use);
  return modules.select([&](const Module* m) { return has_at(m); });
}

void Slot::check_replaceable(const Module::State& state, std::string_view name, Location where) {
  const WeightForms* const forms = state.forms.get();
  if (forms == nullptr) return;
  const bool parametrized = std::ranges::any_of(forms->parametrized, [&](const auto& p) { return p.name == name; });
  const bool adapted = name == "weight" && forms->adapter.held != nullptr;
  const bool quantized = name == "weight" && dynamic_cast<const CodeFormat*>(forms->format.get()) != nullptr;
  if (!parametrized && !adapted && !quantized) return;
  raise<ValueError>({.op = "nn::Module",
                     .problem = fmt::format("\"{}\" is {}: it has no tensor of its own to replace", name,
                                            parametrized ? "parametrized"
                                            : adapted    ? "adapted by LoRA"
                                                         : "quantized"),
                     .remedy = parametrized ? fmt::format("nn::set_parametrized_tensor(layer, \"{}\", value)", name)
                                            : "replace the layer, or its weight before that"},
                    where);
}

void Slot::set(Tensor value) {
  Module::State& state = *owner;
  check_replaceable(state, name, Location::none());
  state.changes.note();
  const std::vector<ModuleTensor*> members = member_tensors();
  auto& entries = kind == Kind::parameter ? state.parameters : state.buffers;
  const auto found = std::ranges::find(entries, name, &Module::State::Entry::name);
  if (!value.defined()) {
    if (found != entries.end()) entries.erase(found);
  } else if (found != entries.end()) {
    static_cast<Tensor&>(found->tensor) = value;
  } else {
    entries.insert(place_of(entries, state.slots, *this), {name, held_as_it_is(value), saved});
  }
  for (ModuleTensor* member : members) static_cast<Tensor&>(*member) = value;
}

void Slot::set(const Module& value) {
  auto& children = owner->children;
  const auto found = std::ranges::find(
      children, name, [](const auto& child) -> auto& { return child.first; });
  if (found != children.end() && found->second.same_as(value)) return;
  check_not_circular(*owner, value, name, Location::none());
  const std::vector<Module*> members = member_modules();
  if (found != children.end()) found->second = value;
  else children.emplace_back(name, value);
  value.state_->registered = true;
  owner->changes.note();
  if (assign == nullptr) return;
  for (Module* member : members) assign(*member, value);
}

void settle(const Module& element) { Slot::settle(element); }
void settle(const ModuleTensor& element) { Slot::settle(element); }

void Slot::follow(ModuleTensor& shows, Shared<Slot> slot) { move_to(shows, shows.link_, shows.slot_, slot); }
void Slot::follow(Module& shows, Shared<Slot> slot) { move_to(shows, shows.link_, shows.slot_, slot); }

void Slot::settle(const Module& element) {
  const std::lock_guard lock(slots_in_use);
  if (element.slot_ != nullptr) element.slot_->home = &element;
}

void Slot::settle(const ModuleTensor& element) {
  const std::lock_guard lock(slots_in_use);
  if (element.slot_ != nullptr) element.slot_->home = &element;
}

void Slot::track(const Module& module, Module::State* to) {
  const std::lock_guard lock(slots_in_use);
  LinkedList<const Module>::remove(module.tracking_);
  if (to != nullptr) to->slots.modules.add(module, module.tracking_);
}

void Slot::take_state(Module& module, const Module& other) {
  if (module.state_ == other.state_) return;
  if (module.tracked_) track(module, other.state_.get());
  module.state_ = other.state_;
}

bool Slot::is_plain(const Module& module) { return module.tracked_ && module.state_->type == TypeId::of<Module>(); }

Slots::~Slots() {
  const std::lock_guard lock(slots_in_use);
  for (const Shared<Slot>& slot : all) slot->owner = nullptr;
}

Shared<Slot> Slot::add(Kind kind, std::string name, bool saved, const Module& module, const void* address) {
  const std::lock_guard lock(slots_in_use);
  Slots& slots = module.state_->slots;
  if (Slot* absent = slots.find(name)) {
    absent->owner = nullptr;
    std::erase_if(slots.all, [&](const auto& slot) { return slot.get() == absent; });
  }
  const ptrdiff_t offset = static_cast<const char*>(address) - reinterpret_cast<const char*>(&module);
  slots.all.push_back(Shared<Slot>::make(
      Slot{.kind = kind, .name = std::move(name), .saved = saved, .owner = module.state_.get(), .offset = offset}));
  return slots.all.back();
}

Slot* Slots::find(std::string_view name) const {
  const auto found = std::ranges::find_if(all, [&](const auto& slot) { return slot->name == name; });
  return found == all.end() ? nullptr : found->get();
}

}  // namespace detail

using detail::Slot;

// Moving from a registered member copies it, because the registry keeps the tensor.
ModuleTensor::ModuleTensor(ModuleTensor&& other) noexcept
    : Tensor(other.slot_ == nullptr ? Tensor(std::move(other)) : Tensor(other)) {
  Slot::follow(*this, other.slot_);
}

namespace {

bool differ(const Tensor& a, const Tensor& b) {
  return a.defined() != b.defined() || (a.defined() && !(a.shape() == b.shape()));
}

template <class Entries>
bool entries_differ(const Entries& a, const Entries& b) {
  return !std::ranges::equal(
      a, b, [](const auto& x, const auto& y) { return x.name == y.name && !differ(x.tensor, y.tensor); });
}

bool options_differ(const Config& a, const Config& b) {
  return !std::ranges::equal(a.options(), b.options(),
                             [](const auto& x, const auto& y) { return x.name == y.name && x.value == y.value; });
}

/// Whether the descriptions of two modules differ in more than the values of tensors and ties.
bool differ(const Module& a, const Module& b) {
  const auto &x = detail::StateAccess::state(a), &y = detail::StateAccess::state(b);
  if (&x == &y) return false;
  if (x.type != y.type || x.class_name != y.class_name || options_differ(x.config, y.config)) return true;
  if (entries_differ(x.parameters, y.parameters) || entries_differ(x.buffers, y.buffers)) return true;
  return !std::ranges::equal(x.children, y.children, [](const auto& own, const auto& other) {
    return own.first == other.first && !differ(own.second, other.second);
  });
}

}  // namespace

ModuleTensor& ModuleTensor::operator=(const ModuleTensor& other) {
  if (this == &other) return *this;
  if (Slot::is_member(*this)) {
    if (differ(*this, static_cast<const Tensor&>(other))) slot_->owner->replaced = true;
    if (impl() != other.impl()) slot_->set(other);
  } else {
    Tensor::operator=(other);
    Slot::follow(*this, other.slot_);
  }
  return *this;
}

ModuleTensor& ModuleTensor::operator=(ModuleTensor&& other) { return *this = std::as_const(other); }

ModuleTensor::~ModuleTensor() { Slot::follow(*this, {}); }

Module& Module::operator=(const Module& other) {
  if (WEFT_UNLIKELY(Slot::is_plain(other))) assign(other);
  else Slot::take_state(*this, other);
  return *this;
}

Module::~Module() {
  if (tracked_) Slot::track(*this, nullptr);
  Slot::follow(*this, {});
}

void Module::track() {
  if (std::exchange(tracked_, true)) return;
  Slot::track(*this, state_.get());
}

void Module::become_copy(const Module& other) {
  if (other.tracked_) track();
  if (!Slot::is_member(*this)) Slot::follow(*this, Slot::of_copy(other.slot_));
}

void Module::assign(const Module& other) {
  if (slot_ != nullptr && slot_->kind == Slot::Kind::held && slot_->home == this) {
    raise<ValueError>({.op = "nn::AnyModule",
                       .problem = fmt::format("a {} inside of an AnyModule is not assigned to", class_name()),
                       .remedy = "assign to the element: net[0] = nn::Linear(8, 2)"},
                      Location::none());
  }
  if (Slot::is_member(*this)) {
    if (differ(*this, other)) slot_->owner->replaced = true;
    slot_->set(other);
  }
  Slot::take_state(*this, other);
  become_copy(other);
  state_->changes.note();
}

void Module::set_replacement(const Module& member, void (*assign)(Module& to, const Module& from)) {
  member.slot_->assign = assign;
}

void AnyModule::hold(Module& layer) {
  Slot::follow(layer, Shared<Slot>::make(Slot{.kind = Slot::Kind::held, .home = &layer}));
}

}  // namespace weft::nn
