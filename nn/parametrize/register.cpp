#include <limits>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/detail/write.hpp"
#include "../../tensor/overlap.hpp"
#include "../../tensor/warning.hpp"
#include "../lora/low_rank-inl.hpp"
#include "../module_state-inl.hpp"

namespace weft::nn {

namespace {

using detail::ParametrizedTensor;
using detail::StateAccess;
using State = StateAccess::State;

constexpr const char *registering = "nn::register_parametrization", *setting = "nn::set_parametrized_tensor",
                     *removing = "nn::remove_parametrizations";

[[noreturn]] void refuse(const char* op, std::string problem, Location where, std::string remedy = {}) {
  raise<ValueError>({.op = op, .problem = std::move(problem), .remedy = std::move(remedy)}, where);
}

ParametrizedTensor& required(const char* op, const Module& module, std::string_view name, Location where) {
  ParametrizedTensor* found = detail::find_parametrized(module, name);
  if (found == nullptr) refuse(op, fmt::format("\"{}\" of a {} is not parametrized", name, module.class_name()), where);
  return *found;
}

/// Raises ValueError unless the result of `step` has the shape and dtype of `like`.
void check_like(const Parametrization& step, const char* function, const Tensor& made, const Tensor& like,
                Location where) {
  if (made.defined() && made.shape() == like.shape() && made.dtype() == like.dtype()) return;
  refuse(registering,
         fmt::format("{} of {} makes {} of {}", function, step.class_name(),
                     made.defined() ? describe(made) : "no tensor", describe(like)),
         where, "pass unsafe = true for a parametrization that changes shape or dtype");
}

/// Computes and checks the originals, without changing anything.
Originals first_originals(const Parametrization& step, const Tensor& tensor, bool unsafe, Location where) {
  const NoGradGuard unrecorded;
  Originals from = step.has_right_inverse() ? step.right_inverse(tensor) : Originals(tensor);
  if (from.tensors.empty()) refuse(registering, "right_inverse of " + step.class_name() + " gives no tensor", where);
  for (const Tensor& t : from.tensors) checked(t, registering, where);
  const Tensor& first = from.tensors[0];
  if (!from.numbered && (first.dtype() != tensor.dtype() || first.device() != tensor.device())) {
    refuse(registering,
           fmt::format("right_inverse of {} makes {} of {}: one tensor keeps dtype and device", step.class_name(),
                       describe(first), describe(tensor)),
           where);
  }
  if (!unsafe) check_like(step, "forward", step(from.tensors, where), tensor, where);
  return from;
}

/// Replaces the value of a module's tensor, possibly with another shape.
void set_value(Tensor& held, const Tensor& value, Location where) {
  if (value.impl() == held.impl()) return;
  const NoGradGuard unrecorded;
  if (value.shape() == held.shape() && value.dtype() == held.dtype() && value.device() == held.device() &&
      !overlaps(held.raw_view().layout)) {
    held.detach().copy_(unaliased(value, held));
  } else if (held.impl()->mobility == Mobility::movable) {
    held.set_grad({}, where);
    detail::replace_memory(held, value.detach().clone(), where);
  } else {
    held = Buffer(value.detach().clone());
  }
}

/// Fills a tensor that is not an original with NaN, for holders that still read it, and frees its memory.
void leave_nothing_in(const ModuleTensor& member, Location where) {
  if (member.impl()->mobility != Mobility::movable) return;
  const NoGradGuard unrecorded;
  const TensorOptions like{member.dtype(), member.device()};
  const Tensor nothing = is_floating(member.dtype()) ? full({}, std::numeric_limits<double>::quiet_NaN(), like, where)
                                                     : zeros({}, like, where);
  member.set_grad({}, where);
  detail::replace_memory(member, nothing.expand(member.shape()), where);
}

/// Creates the module that holds the originals and the steps; reuses `member` as an original if possible.
Module list_of(const Originals& from, const ParametrizedTensor& p, Location where) {
  Module list;
  State& state = StateAccess::state(list);
  state.class_name = "ParametrizationList";
  state.training = StateAccess::state(p.steps[0]).training;
  auto& entries = p.is_parameter ? state.parameters : state.buffers;
  for (size_t i = 0; i < from.tensors.size(); ++i) {
    const Tensor& t = from.tensors[i];
    ModuleTensor held = p.member;
    if (from.numbered && t.impl() != p.member.impl()) {
      if (p.is_parameter) held = Parameter(t, where);
      else held = Buffer(t, where);
      if (p.is_parameter) held.requires_grad_(p.member.requires_grad(), where);
    }
    entries.push_back({from.numbered ? fmt::format("original{}", i) : "original", held, p.saved});
  }
  return list;
}

void add_child(const Module& module, std::string name, const Module& child) {
  StateAccess::state(module).children.emplace_back(std::move(name), child);
  StateAccess::state(child).registered = true;
}

/// Null if no tensor is parametrized.
const Module* lists_of(const Module& module) {
  for (const auto& [name, child] : StateAccess::state(module).children) {
    if (name == detail::parametrizations) return &child;
  }
  return nullptr;
}

Module made_lists(const Module& module) {
  if (const Module* present = lists_of(module)) return *present;
  Module lists;
  StateAccess::state(lists).class_name = "ModuleDict";
  StateAccess::state(lists).training = StateAccess::state(module).training;
  // Before the factors of an adapter, so that the order of conversions does not matter to model files.
  auto& children = StateAccess::state(module).children;
  const auto factors = std::ranges::find(children, "lora_A", &std::pair<std::string, Module>::first);
  children.emplace(factors, detail::parametrizations, lists);
  StateAccess::state(lists).registered = true;
  return lists;
}

template <class Entries>
bool erase_named(Entries& entries, std::string_view name) {
  return std::erase_if(entries, [&](const auto& entry) { return entry.name == name; }) > 0;
}

/// Warns after a forward that did not request the value: it used the member itself, which no other check detects.
HookHandle watched(const Module& module, const ParametrizedTensor& p) {
  if (StateAccess::state(module).open) return {};
  return Module(module).register_forward_hook(
      [asked = p.asked, name = p.name](const ForwardEvent& e) {
        if (asked->load(MemoryOrder::relaxed)) return;
        const std::string op = e.module.class_name();
        warn({.op = op.c_str(),
              .problem = fmt::format("its forward computes with the member \"{}\" itself, which is parametrized", name),
              .remedy = fmt::format("in forward: value_of({})", name)},
             e.location);
      },
      Location::none());
}

void add_first(const Module& module, ParametrizedTensor p, const Originals& from, Location where) {
  p.list = list_of(from, p, where);
  add_child(p.list, "0", p.steps[0]);
  const auto is_member = [&](const Tensor& t) { return t.impl() == p.member.impl(); };
  if (!from.numbered) set_value(p.member, from.tensors[0], where);
  else if (std::ranges::none_of(from.tensors, is_member)) leave_nothing_in(p.member, where);
  detail::adopt_parametrized(module, std::move(p));
}

void add_further(ParametrizedTensor& p, Parametrization step, bool unsafe, Location where) {
  if (!unsafe) {
    const NoGradGuard unrecorded;
    const Tensor before = p.value(where), after = step({&before, 1}, where);
    check_like(step, "forward", after, before, where);
    if (step.has_right_inverse()) {
      const Originals back = step.right_inverse(after);
      check_like(step, "right_inverse", back.numbered ? Tensor() : back.tensors[0], before, where);
    }
  }
  add_child(p.list, std::to_string(p.steps.size()), step);
  p.steps.push_back(std::move(step));
  p.unsafe = p.unsafe || unsafe;
}

/// The entry of a tensor that is not parametrized, and whether it is a parameter.
std::pair<const State::Entry*, bool> plain_entry(const Module& module, std::string_view name) {
  const State& state = StateAccess::state(module);
  for (const auto* entries : {&state.parameters, &state.buffers}) {
    if (const auto* entry = detail::find_entry(*entries, name)) return {entry, entries == &state.parameters};
  }
  return {nullptr, false};
}

/// Whether other forms of the layer compute with this tensor.
bool is_weight_form(const Module& module, std::string_view name) {
  const detail::ShardedLayer* const sharding = detail::sharding_of(module);
  return (name == "weight" && detail::adapter_of(module) != nullptr) ||
         (sharding != nullptr && sharding->shard_dim(name).has_value());
}

[[noreturn]] void raise_no_tensor(const char* op, const Module& module, std::string_view name, Location where) {
  refuse(op, fmt::format("a {} has no parameter or buffer \"{}\"", module.class_name(), name), where);
}

}  // namespace

Tensor detail::present_tensor(const char* op, const Module& module, std::string_view name, Location where) {
  const NoGradGuard unrecorded;
  if (const ParametrizedTensor* found = find_parametrized(module, name)) return found->value(where);
  const State::Entry* entry = plain_entry(module, name).first;
  if (entry == nullptr) raise_no_tensor(op, module, name, where);
  return entry->tensor;
}

void detail::adopt_parametrized(const Module& module, ParametrizedTensor p) {
  State& state = StateAccess::state(module);
  const Module lists = made_lists(module);
  p.watch = watched(module, p);
  std::erase_if(StateAccess::state(lists).children, [&](const auto& child) { return child.first == p.name; });
  add_child(lists, p.name, p.list);
  erase_named(p.is_parameter ? state.parameters : state.buffers, p.name);
  WeightForms& forms = state.forms.get_or_make();
  if (p.name == "weight" && forms.adapter.held != nullptr) forms.adapter.held->weight = {};
  forms.parametrized.push_back(std::move(p));
  state.changes.note();
}

void register_parametrization(const Module& module, std::string_view name, Parametrization step, bool unsafe,
                              Location where) {
  const State& state = StateAccess::state(module);
  detail::check_not_circular(StateAccess::state(module), step, std::string(name), where);
  if (is_weight_form(module, name)) {
    detail::check_form(registering, module, std::string(name), detail::Form::parametrized, where);
  }
  if (ParametrizedTensor* present = detail::find_parametrized(module, name)) {
    step.train(state.training);
    StateAccess::state(module).changes.note();
    return add_further(*present, std::move(step), unsafe, where);
  }
  const auto [entry, is_parameter] = plain_entry(module, name);
  if (entry == nullptr) raise_no_tensor(registering, module, name, where);
  if (!is_parametrized(module))
    detail::check_name(detail::parametrizations, state.has(detail::parametrizations), where);
  step.train(state.training);
  const Originals from = first_originals(step, entry->tensor, unsafe, where);
  add_first(module,
            {.name = std::string(name),
             .member = entry->tensor,
             .list = {},
             .steps = {std::move(step)},
             .is_parameter = is_parameter,
             .saved = entry->saved,
             .unsafe = unsafe},
            from, where);
}

Tensor parametrized_tensor(const Module& module, std::string_view name, Location where) {
  return required("nn::parametrized_tensor", module, name, where).value(where);
}

void set_parametrized_tensor(const Module& module, std::string_view name, const Tensor& value, Location where) {
  ParametrizedTensor& p = required(setting, module, name, where);
  const NoGradGuard unrecorded;
  Originals from = checked(value, setting, where);
  for (auto step = p.steps.rbegin(); step != p.steps.rend(); ++step) {
    if (!step->has_right_inverse()) {
      refuse(setting, fmt::format("{} has no right_inverse: \"{}\" is not set", step->class_name(), name), where);
    }
    if (from.numbered) refuse(setting, "only the first parametrization has several originals", where);
    from = step->right_inverse(from.tensors[0]);
  }
  std::vector<Tensor> originals = p.originals();
  bool fits = from.tensors.size() == originals.size();
  for (size_t i = 0; fits && i < originals.size(); ++i) {
    const Tensor &own = originals[i], &given = checked(from.tensors[i], setting, where);
    const bool keeps_shape = own.shape() == given.shape() || (p.unsafe && own.impl()->mobility == Mobility::movable);
    fits = keeps_shape && own.dtype() == given.dtype() && own.device() == given.device();
    from.tensors[i] = given.clone();
  }
  if (!fits) {
    refuse(setting, fmt::format("{} does not return the originals of \"{}\"", describe(value), name), where);
  }
  for (size_t i = 0; i < originals.size(); ++i) set_value(originals[i], from.tensors[i], where);
}

void remove_parametrizations(const Module& module, std::string_view name, bool leave_parametrized, Location where) {
  ParametrizedTensor& found = required(removing, module, name, where);
  const std::vector<Tensor> originals = found.originals();
  if (!leave_parametrized && found.numbered()) {
    refuse(removing, fmt::format("\"{}\" has several originals: its present value alone can be left", name), where);
  }
  Tensor value = originals.at(0);
  if (leave_parametrized) {
    const NoGradGuard unrecorded;
    value = found.value(where);
  }
  State& state = StateAccess::state(module);
  auto& entries = found.is_parameter ? state.parameters : state.buffers;
  entries.reserve(entries.size() + 1);
  set_value(found.member, value, where);
  if (found.is_parameter) {
    found.member.requires_grad_(std::ranges::any_of(originals, [](const Tensor& t) { return t.requires_grad(); }),
                                where);
  }
  ParametrizedTensor p = found;
  erase_named(state.forms.get()->parametrized, p.name);
  p.watch.remove();
  auto& lists = StateAccess::state(*lists_of(module)).children;
  std::erase_if(lists, [&](const auto& child) { return child.first == p.name; });
  if (!is_parametrized(module)) {
    std::erase_if(state.children, [](const auto& child) { return child.first == detail::parametrizations; });
  }
  entries.push_back({p.name, p.member, p.saved});
  detail::LowRank* const adapter = detail::adapter_of(module);
  if (p.name == "weight" && adapter != nullptr) adapter->weight = p.member;
  state.forms.drop_if_empty();
  state.changes.note();
}

}  // namespace weft::nn
