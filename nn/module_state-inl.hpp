// What a module's handles share.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "../tensor/atomic.hpp"
#include "../tensor/configuration.hpp"
#include "config.hpp"
#include "layer_in_parts-inl.hpp"
#include "module.hpp"
#include "parametrize/parametrized-inl.hpp"
#include "quantize/low_precision-inl.hpp"

namespace weft::nn {

namespace detail {

// A module's hooks, made with the first one by whichever thread comes first. A clone starts without, but for
// what is no hook.
class HooksSlot {
 public:
  HooksSlot() = default;
  HooksSlot(const HooksSlot& other) {
    if (other.get() != nullptr && other.get()->recomputes.load(MemoryOrder::relaxed)) made().recomputes = true;
  }
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

/// While modules are cloned on this thread, where the copy of what stands at this address is kept; null at other times.
Shared<void>* clone_slot(const void* original);

/// What is added to the weight of a layer (nn/lora/low_rank-inl.hpp): the copies of a module share it, a clone has its
/// own.
class AdapterSlot {
 public:
  AdapterSlot() = default;
  AdapterSlot(const AdapterSlot& other);
  AdapterSlot& operator=(const AdapterSlot&) = default;

  Shared<LowRank> held;
};

/// Puts the memory of `value` under a tensor that a module holds, for all its holders; whoever saved the old value for
/// backward is told by the version.
void replace_memory(const Tensor& held, const Tensor& value, Location where);
/// `other`, a head of its own with the same shape, dtype and device, gets the memory of `held`, which gets its. Nobody
/// is told; versions go with the memory.
WEFT_API void exchange_memory(const Tensor& held, const Tensor& other);
/// A handle of the tensor itself; a Parameter or Buffer would be another tensor.
inline ModuleTensor held_as_it_is(const Tensor& tensor) {
  ModuleTensor held;
  static_cast<Tensor&>(held) = tensor;
  return held;
}
/// Moves or converts a tensor that a module holds, with its gradient.
void move_held(Tensor& held, DType dtype, Location where);
/// ValueError for a name that is empty, holds a dot, or is `taken`.
void check_name(const std::string& name, bool taken, Location where);

/// Objects that enter and leave without allocating memory. Copies of a list are empty.
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
  /// Those that fulfil a condition.
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
  /// `held`: no member, but the layer inside of an AnyModule.
  enum class Kind { parameter, buffer, child, held };

  Kind kind;
  std::string name = {};
  bool saved = true;
  Module::State* owner = nullptr;  // null also once that is gone
  /// Of a member from the start of its module, in each copy of that.
  ptrdiff_t offset = 0;
  /// Of an element of a container, which stands at one address for all copies.
  const void* home = nullptr;
  void (*assign)(Module& to, const Module& from) = nullptr;
  /// Those here are the registered members and copies of them, of which `is_member` tells.
  LinkedList<ModuleTensor> tensors = {};
  LinkedList<Module> modules = {};

  /// The members at present.
  std::vector<ModuleTensor*> member_tensors() const;
  std::vector<Module*> member_modules() const;
  /// What all members and the registry hold from now on. ValueError where something else computes the tensor.
  void set(Tensor value);
  void set(const Module& value);

  static bool is_member(const ModuleTensor& tensor);
  static bool is_member(const Module& module);
  /// `shows` is another object of the slot from now on, or of none.
  static void follow(ModuleTensor& shows, Shared<Slot> slot);
  static void follow(Module& shows, Shared<Slot> slot);
  /// The address of an element of a container, which copies of that share.
  static void settle(const Module& element);
  static void settle(const ModuleTensor& element);
  /// Adds the slot of a member at `address` to its module.
  static Shared<Slot> add(Kind kind, std::string name, bool saved, const Module& module, const void* address);
  /// Adds the slots of `original` to a clone of it.
  static void clone_all(const Module::State& original, Module::State& clone);
  /// The slot of a copy: while cloning, that of the clone.
  static Shared<Slot> of_copy(const Shared<Slot>& original);
  /// The module is one of `to`, or of none.
  static void track(const Module& module, Module::State* to);
  static void take_state(Module& module, const Module& other);
  /// Whether its class derives from Module itself, so that Module copies it.
  static bool is_plain(const Module& module);

  /// ValueError where something else computes the tensor of that name.
  static void check_replaceable(const Module::State& state, std::string_view name, Location where);

 private:
  bool has_at(const void* address) const;
};

/// The slots of a state and the objects that have members at their offsets. Copies start empty.
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
  // Of its members, for captured steps.
  weft::detail::Changes changes;
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
  detail::AdapterSlot adapter;
  Shared<const detail::LayerInParts> in_parts;
  std::vector<detail::ParametrizedTensor> parametrized;
  detail::LowPrecision low_precision;
  detail::Slots slots;

  bool has(const std::string& name) const {
    const auto named = [&](const Entry& e) { return e.name == name; };
    return std::ranges::any_of(parameters, named) || std::ranges::any_of(buffers, named) ||
           std::ranges::any_of(parametrized, [&](const auto& p) { return p.name == name; }) ||
           std::ranges::any_of(children, [&](const auto& child) { return child.first == name; });
  }
};

/// The way to what a module keeps to itself.
struct detail::StateAccess {
  using State = Module::State;
  static Module::State& state(const Module& module) { return *module.state_; }
};

namespace detail {
/// ValueError where `held` is the holder or holds it.
void check_not_circular(const StateAccess::State& holder, const Module& held, const std::string& name, Location where);
}  // namespace detail

}  // namespace weft::nn
