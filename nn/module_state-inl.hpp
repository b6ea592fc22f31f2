// The state that all handles of a module share.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../tensor/atomic.hpp"
#include "../tensor/configuration.hpp"
#include "config.hpp"
#include "module.hpp"
#include "weight_forms-inl.hpp"

namespace weft::nn {

namespace detail {

// A module's hooks, created on first use, by any thread. A clone starts without hooks, but keeps the checkpointing
// flag.
class HooksSlot {
 public:
  HooksSlot() = default;
  HooksSlot(const HooksSlot& other) {
    if (other.get() != nullptr && other.get()->recomputes.load(MemoryOrder::relaxed)) get_or_make().recomputes = true;
  }
  ~HooksSlot() { delete get(); }

  ModuleHooks* get() const { return hooks_.load(MemoryOrder::acquire); }
  ModuleHooks& get_or_make() {
    if (ModuleHooks* present = get()) return *present;
    auto fresh = std::make_unique<ModuleHooks>();
    ModuleHooks* present = nullptr;
    if (hooks_.compare_exchange_strong(present, fresh.get(), MemoryOrder::acq_rel)) return *fresh.release();
    return *present;
  }

 private:
  Atomic<ModuleHooks*> hooks_{nullptr};
};

/// During a clone on this thread: the slot for the copy of the object at this address; null at other times.
Shared<void>* clone_slot(const void* original);

/// Replaces the storage of a module's tensor by that of `value`, for all holders. The version increases, so that
/// backward detects saved tensors of the old value.
void replace_memory(const Tensor& held, const Tensor& value, Location where);
/// Swaps the storages of `held` and `other`, an unshared head with the same shape, dtype and device. Versions move with
/// the storage; nothing is notified.
WEFT_API void exchange_memory(const Tensor& held, const Tensor& other);
/// A handle to the tensor itself; constructing a Parameter or Buffer would create another tensor.
inline ModuleTensor held_as_it_is(const Tensor& tensor) {
  ModuleTensor held;
  static_cast<Tensor&>(held) = tensor;
  return held;
}
/// Moves or converts a tensor of a module, with its gradient.
void move_held(Tensor& held, DType dtype, Location where);
/// Raises ValueError if the name is empty, contains a dot, or is `taken`.
void check_name(const std::string& name, bool taken, Location where);

/// An intrusive list: insertion and removal allocate no memory. Copies of a list are empty.
template <class T>
class LinkedList {
 public:
  LinkedList() = default;
  LinkedList(const LinkedList&) {}

  void add(T& object, Link& link) {
    link.object = &object;
    link.next = first_;
    link.from = &first_;
    if (first_ != nullptr) first_->from = &link.next;
    first_ = &link;
  }
  static void remove(Link& link) {
    if (link.from == nullptr) return;
    *link.from = link.next;
    if (link.next != nullptr) link.next->from = link.from;
    link.from = nullptr;
  }
  /// The elements for which `condition` is true.
  template <class Condition>
  std::vector<T*> select(Condition&& condition) const {
    std::vector<T*> out;
    for (const Link* link = first_; link != nullptr; link = link->next) {
      T* const object = static_cast<T*>(const_cast<void*>(link->object));
      if (condition(object)) out.push_back(object);
    }
    return out;
  }
  bool contains(const void* address) const {
    const Link* link = first_;
    while (link != nullptr && link->object != address) link = link->next;
    return link != nullptr;
  }

 private:
  Link* first_ = nullptr;
};

struct Slot {
  /// `held`: not a member, but the layer in an AnyModule.
  enum class Kind { parameter, buffer, child, held };

  Kind kind;
  std::string name = {};
  bool saved = true;
  Module::State* owner = nullptr;  // null also after the owner is destroyed
  /// Offset of a member in its module object, the same in each copy.
  ptrdiff_t offset = 0;
  /// For a container element: its address, which all copies share.
  const void* home = nullptr;
  void (*assign)(Module& to, const Module& from) = nullptr;
  /// The registered members and copies of them; `is_member` distinguishes them.
  LinkedList<ModuleTensor> tensors = {};
  LinkedList<Module> modules = {};

  /// The members among them.
  std::vector<ModuleTensor*> member_tensors() const;
  std::vector<Module*> member_modules() const;
  /// Replaces the value in all members and in the registry. Raises ValueError as check_replaceable.
  void set(Tensor value);
  void set(const Module& value);

  static bool is_member(const ModuleTensor& tensor);
  static bool is_member(const Module& module);
  /// Moves `shows` to another slot, or to none.
  static void follow(ModuleTensor& shows, Shared<Slot> slot);
  static void follow(Module& shows, Shared<Slot> slot);
  /// Marks the current address as that of a container element, which copies of the container share.
  static void settle(const Module& element);
  static void settle(const ModuleTensor& element);
  /// Adds the slot of a member at `address` to its module.
  static Shared<Slot> add(Kind kind, std::string name, bool saved, const Module& module, const void* address);
  /// Adds copies of the slots of `original` to its clone.
  static void clone_all(const Module::State& original, Module::State& clone);
  /// The slot of a copy: while cloning, that of the clone.
  static Shared<Slot> of_copy(const Shared<Slot>& original);
  /// The module is one of `to`, or of none.
  static void track(const Module& module, Module::State* to);
  static void take_state(Module& module, const Module& other);
  /// Whether the class derives directly from Module, so that Module copies it.
  static bool is_plain(const Module& module);

  /// Raises ValueError if the tensor of that name is parametrized, adapted by LoRA or quantized.
  static void check_replaceable(const Module::State& state, std::string_view name, Location where);

 private:
  bool has_at(const void* address) const;
};

/// The slots of a state, and the objects with members at their offsets. Copies start empty.
struct Slots {
  Slots() = default;
  Slots(const Slots&) {}
  ~Slots();

  Slot* find(std::string_view name) const;

  std::vector<Shared<Slot>> all;
  LinkedList<const Module> modules;
};

}  // namespace detail

struct Module::State {
  struct Entry {
    std::string name;
    ModuleTensor tensor;
    bool saved = true;
  };
  std::vector<Entry> parameters, buffers;
  std::vector<std::pair<std::string, Module>> children;
  weft::detail::Flag<true> training;
  // Counts changes of its members, for captured steps.
  weft::detail::Changes changes;
  TypeId type = TypeId::of<Module>();
  // Overrides the name of `type`.
  std::string class_name;
  std::string extra_repr;
  Config config;
  // See ModuleDescription::unknown.
  std::string unknown;
  // Whether another module has it as a child.
  bool registered = false;
  // Whether a member was added after that, and whether one was replaced by one of another structure. The class may then
  // construct a different module; often its constructor does both.
  bool extended = false, replaced = false;
  // Whether members are registered by assignment instead of WEFT_REGISTER.
  bool open = false;
  detail::HooksSlot hooks;
  detail::FormsSlot forms;
  detail::Slots slots;

  bool has(const std::string& name) const {
    const auto named = [&](const auto& e) { return e.name == name; };
    return std::ranges::any_of(parameters, named) || std::ranges::any_of(buffers, named) ||
           (forms.get() != nullptr && std::ranges::any_of(forms.get()->parametrized, named)) ||
           std::ranges::any_of(children, [&](const auto& child) { return child.first == name; });
  }
};

/// Access to a module's private state.
struct detail::StateAccess {
  using State = Module::State;
  static Module::State& state(const Module& module) { return *module.state_; }
};

namespace detail {
/// The parameter or buffer of that name in a module's list; null if there is none.
template <class Entries>
auto* find_entry(Entries& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &StateAccess::State::Entry::name);
  return found == entries.end() ? nullptr : &*found;
}
/// ValueError where `held` is the holder or holds it.
void check_not_circular(const StateAccess::State& holder, const Module& held, const std::string& name, Location where);
}  // namespace detail

}  // namespace weft::nn
