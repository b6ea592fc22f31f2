#include "module.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <ostream>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../autograd/mode.hpp"
#include "containers.hpp"
#include "lora/low_rank-inl.hpp"
#include "module_state-inl.hpp"
#include "parametrize.hpp"
#include "path-inl.hpp"
#include "../ops/detail/write.hpp"
#include "../tensor/warning.hpp"

namespace weft::nn {

namespace detail {

struct CloneScope::Memo {
  std::unordered_map<const void*, Shared<void>> states;
  std::unordered_map<const Slot*, Shared<Slot>> slots;
  std::unordered_map<const TensorImpl*, Tensor> tensors;
};

namespace {
thread_local CloneScope::Memo* cloning = nullptr;
}

void Slot::clone_all(const Module::State& original, Module::State& clone) {
  for (const Shared<Slot>& slot : original.slots.all) {
    const auto copy = Shared<Slot>::make(Slot{.kind = slot->kind,
                                              .name = slot->name,
                                              .saved = slot->saved,
                                              .owner = &clone,
                                              .offset = slot->offset,
                                              .home = slot->home == nullptr ? nullptr : slot.get(),
                                              .assign = slot->assign});
    cloning->slots.emplace(slot.get(), copy);
    clone.slots.all.push_back(copy);
  }
}

Shared<Slot> Slot::of_copy(const Shared<Slot>& original) {
  if (cloning == nullptr || original == nullptr) return original;
  const auto found = cloning->slots.find(original.get());
  return found == cloning->slots.end() ? Shared<Slot>() : found->second;
}

CloneScope::CloneScope() : memo_(new Memo), outer_(std::exchange(cloning, memo_.get())) {}
CloneScope::~CloneScope() { cloning = outer_; }

namespace {

Tensor cloned(const Tensor& original) {
  if (!original.defined()) return {};
  Tensor& copy = cloning->tensors[original.impl()];
  if (!copy.defined()) {
    NoGradGuard unrecorded;
    copy = original.clone(Location::none()).detach();
    copy.impl()->mobility = Mobility::movable;
    if (original.requires_grad()) copy.requires_grad_(true, Location::none());
  }
  return copy;
}

// A tensor that the module does not own, as in an OpenModule, is not changed: the module gets a new one.
template <class Target>
void move_to(Tensor& held, Target target, Location where) {
  NoGradGuard unrecorded;
  const Tensor moved = held.to(target, where);
  if (moved.impl() == held.impl()) return;
  if (held.impl()->mobility != Mobility::movable) {
    held = Buffer(moved);
    return;
  }
  const Tensor grad = held.grad();
  const Tensor moved_grad = grad.defined() ? grad.to(target, where) : Tensor();
  replace_memory(held, moved, where);
  if (grad.defined()) held.set_grad(moved_grad, where);
}

}  // namespace

// Requires a head of its own, which `ModuleTensor` creates.
void replace_memory(const Tensor& held, const Tensor& value, Location where) {
  Tensor fresh = value.detach();
  fresh.impl()->storage->version = held.version();
  const CallScope call("Module::to", where);
  note_write(fresh);
  exchange_memory(held, fresh);
}

void exchange_memory(const Tensor& held, const Tensor& other) {
  weft::detail::exchange_memory(held.impl(), other.impl());
}

void move_held(Tensor& held, DType dtype, Location where) { move_to(held, dtype, where); }

namespace {

/// Replaced tensors, kept alive so that their addresses are not reused.
using Replaced = std::unordered_map<const TensorImpl*, std::pair<Tensor, Tensor>>;

/// A replaced tensor that several modules share remains shared.
template <class Target>
void move_entry(const Slots& slots, StateAccess::State::Entry& entry, Target target, Replaced& replaced,
                Location where) {
  const Tensor before = entry.tensor;
  if (const auto found = replaced.find(before.impl()); found != replaced.end()) {
    static_cast<Tensor&>(entry.tensor) = found->second.second;
  } else {
    move_to(entry.tensor, target, where);
  }
  if (entry.tensor.impl() == before.impl()) return;
  replaced.try_emplace(before.impl(), before, entry.tensor);
  const Slot* slot = slots.find(entry.name);
  if (slot == nullptr) return;
  for (ModuleTensor* member : slot->member_tensors()) static_cast<Tensor&>(*member) = entry.tensor;
}

}  // namespace

}  // namespace detail

ModuleTensor::ModuleTensor(const ModuleTensor& other)
    : Tensor(detail::cloning == nullptr ? Tensor(other) : detail::cloned(other)) {
  detail::Slot::follow(*this, detail::Slot::of_copy(other.slot_));
}

ModuleTensor::ModuleTensor(const Tensor& tensor, bool requires_grad, Location where)
    : Tensor(checked(tensor, requires_grad ? "nn::Parameter" : "nn::Buffer", where).detach()) {
  impl()->mobility = Mobility::movable;
  if (requires_grad) requires_grad_(true, where);
}

namespace detail {

bool cloning_now() { return cloning != nullptr; }

Shared<void>* clone_slot(const void* original) { return cloning == nullptr ? nullptr : &cloning->states[original]; }

// "weft::nn::ModuleList<weft::nn::Linear>" and "test()::ModuleList" become "ModuleList".
std::string short_name(TypeId type) {
  const std::string_view full = type.name();
  size_t start = 0, end = full.size();
  int depth = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    const char c = full[i];
    if (c == '<' && depth++ == 0) end = i;
    else if (c == '(' || c == '{') ++depth;
    else if (c == '>' || c == ')' || c == '}') --depth;
    else if (c == ':' && depth == 0) start = i + 1, end = full.size();
  }
  return std::string(full.substr(start, end - start));
}

}  // namespace detail

Module::Module() : Module(TypeId::of<Module>()) {}
Module::Module(TypeId type) : state_(Shared<State>::make()) { state_->type = type; }

Module::Module(const Module& other) : state_(other.state_) {
  if (detail::cloning != nullptr) {
    Shared<void>& copy = detail::cloning->states[other.state_.get()];
    if (copy == nullptr) {
      const auto fresh = Shared<State>::make(*other.state_);
      detail::Slot::clone_all(*other.state_, *fresh);
      copy = fresh;
    }
    state_ = Shared<State>(copy, static_cast<State*>(copy.get()));
  }
  if (WEFT_UNLIKELY(detail::Slot::is_plain(other))) become_copy(other);
}

const detail::ModuleHooks* Module::hooks() const { return state_->hooks.get(); }

HookHandle Module::add_hook(detail::ForwardHook hook) {
  const auto& list = state_->hooks.get_or_make().forward;
  hook.setting = Shared<weft::detail::Setting>::make();
  return HookHandle(list, list->add(std::move(hook)));
}

HookHandle Module::add_hook(weft::detail::Hook hook) {
  const auto& list = state_->hooks.get_or_make().backward;
  hook.setting = Shared<weft::detail::Setting>::make();
  return HookHandle(list, list->add(std::move(hook)));
}

namespace detail {

void check_name(const std::string& name, bool taken, Location where) {
  if (!name.empty() && name.find('.') == std::string::npos && !taken) return;
  const char* problem = taken ? "the name \"{}\" is taken" : "\"{}\" is no name: it is empty or holds a dot";
  raise<ValueError>({.op = "nn::Module", .problem = fmt::format(fmt::runtime(problem), name)}, where);
}

void check_not_circular(const StateAccess::State& holder, const Module& held, const std::string& name, Location where) {
  for (const Module& below : held.modules()) {
    if (&StateAccess::state(below) != &holder) continue;
    raise<ValueError>({.op = "nn::Module", .problem = "a module cannot hold itself: " + name}, where);
  }
}

}  // namespace detail

using detail::joined;

void Module::register_parameter(std::string name, Parameter& parameter, Location where) {
  detail::check_name(name, state_->has(name), where);
  state_->extended |= state_->registered;
  if (parameter.defined()) state_->parameters.push_back({name, detail::held_as_it_is(parameter), true});
  track();
  detail::Slot::follow(parameter, detail::Slot::add(detail::Slot::Kind::parameter, name, true, *this, &parameter));
}

void Module::register_buffer(std::string name, Buffer& buffer, Location where, bool saved) {
  detail::check_name(name, state_->has(name), where);
  state_->extended |= state_->registered;
  if (buffer.defined()) state_->buffers.push_back({name, detail::held_as_it_is(buffer), saved});
  track();
  detail::Slot::follow(buffer, detail::Slot::add(detail::Slot::Kind::buffer, name, saved, *this, &buffer));
}

void Module::register_module(std::string name, Module& module, Location where) {
  detail::check_name(name, state_->has(name), where);
  detail::check_not_circular(*state_, module, name, where);
  state_->extended |= state_->registered;
  state_->children.emplace_back(name, module);
  state_->changes.note();
  module.state_->registered = true;
  track();
  detail::Slot::follow(module, detail::Slot::add(detail::Slot::Kind::child, name, true, *this, &module));
}

std::string Module::next_name(std::string_view& names) {
  const size_t end = std::min(names.find(','), names.size());
  const std::string_view first = names.substr(0, end);
  names.remove_prefix(std::min(end + 1, names.size()));
  const size_t start = std::min(first.find_first_not_of(" \n\t"), first.size());
  return std::string(first.substr(start, first.find_last_not_of(" \n\t") + 1 - start));
}

void Module::set_config(const Config& config) {
  state_->config = config;
  state_->extra_repr = config.text();
}
const Config& Module::config() const { return state_->config; }

void Module::set_extra_repr(std::string text) { state_->extra_repr = std::move(text); }
const std::string& Module::extra_repr() const { return state_->extra_repr; }

void Module::set_class_name(std::string name) { state_->class_name = std::move(name); }
std::string Module::class_name() const {
  return state_->class_name.empty() ? detail::short_name(state_->type) : state_->class_name;
}

namespace detail {

constinit thread_local const ForwardScope* ForwardScope::running = nullptr;

struct ForwardScope::Undo {
  int exceptions = std::uncaught_exceptions();
  std::vector<Callback<void()>> steps;
};

void ForwardScope::undo_on_failure(Callback<void()> undo) {
  const ForwardScope* around = running != nullptr ? running->outer_ : nullptr;
  if (around == nullptr) return;
  if (around->undo_ == nullptr) around->undo_ = new Undo;
  around->undo_->steps.push_back(std::move(undo));
}

void ForwardScope::finish() noexcept {
  const std::unique_ptr<Undo> undo(std::exchange(undo_, nullptr));
  if (std::uncaught_exceptions() <= undo->exceptions) return;
  try {
    for (const Callback<void()>& step : undo->steps) step();
  } catch (...) {  // the call's own error is already propagating
  }
}

// A forgotten member still computes, so no other check detects it. Modules without parameters may be unregistered, and
// so may a temporary module that uses parameters of the outer one.
void ForwardScope::check_registered(const Module& module, const Module& outer, Location where) {
  if (module.state_->registered || !recording()) return;
  std::unordered_set<const TensorImpl*> held;
  for (const Tensor& p : outer.parameters()) held.insert(p.impl());
  int64_t count = 0;
  for (const Tensor& p : module.parameters()) count += p.requires_grad() && !held.contains(p.impl()) ? p.numel() : 0;
  if (count == 0) return;
  const std::string op = outer.class_name(), inner = module.class_name();
  warn({.op = op.c_str(),
        .problem = fmt::format("a {} is called in forward that no module has registered", inner),
        .details = fmt::format("parameters(), to() and state_dict() pass over its {} elements", count),
        .remedy = outer.state_->open
                      ? "hold it in an attribute, a ModuleList or a ModuleDict, or requires_grad_(False) if not trained"
                      : "in the constructor: WEFT_REGISTER(its name), or requires_grad_(false) if it is not trained"},
       where);
}

}  // namespace detail

namespace {

// Collects held tensors of one type from a module tree, without duplicates.
template <class State, class List>
void collect(const State& state, List State::*list, const std::string& path, std::vector<NamedTensor>& out,
             std::unordered_set<const TensorImpl*>& seen, const auto& state_of) {
  for (const auto& entry : state.*list) {
    if (seen.insert(entry.tensor.impl()).second) out.push_back({joined(path, entry.name), entry.tensor});
  }
  for (const auto& [name, child] : state.children)
    collect(state_of(child), list, joined(path, name), out, seen, state_of);
}

std::vector<Tensor> without_names(std::vector<NamedTensor> named) {
  std::vector<Tensor> out;
  out.reserve(named.size());
  for (NamedTensor& n : named) out.push_back(std::move(n.tensor));
  return out;
}

}  // namespace

std::vector<NamedTensor> Module::named_parameters() const {
  std::vector<NamedTensor> out;
  std::unordered_set<const TensorImpl*> seen;
  collect(*state_, &State::parameters, "", out, seen, [](const Module& m) -> const State& { return *m.state_; });
  return out;
}

std::vector<NamedTensor> Module::named_buffers() const {
  std::vector<NamedTensor> out;
  std::unordered_set<const TensorImpl*> seen;
  collect(*state_, &State::buffers, "", out, seen, [](const Module& m) -> const State& { return *m.state_; });
  return out;
}

std::vector<Tensor> Module::parameters() const { return without_names(named_parameters()); }
std::vector<Tensor> Module::buffers() const { return without_names(named_buffers()); }
std::vector<std::pair<std::string, Module>> Module::named_children() const { return state_->children; }

namespace {

std::vector<Module> without_names(std::vector<std::pair<std::string, Module>> named) {
  std::vector<Module> out;
  out.reserve(named.size());
  for (auto& [name, module] : named) out.push_back(std::move(module));
  return out;
}

}  // namespace

std::vector<Module> Module::children() const { return without_names(named_children()); }
std::vector<Module> Module::modules() const { return without_names(named_modules()); }

std::vector<std::pair<std::string, Module>> Module::named_modules() const {
  std::vector<std::pair<std::string, Module>> out;
  std::unordered_set<const State*> seen;
  const auto walk = [&](const auto& self, const Module& module, const std::string& path) -> void {
    if (!seen.insert(module.state_.get()).second) return;
    out.emplace_back(path, module);
    for (const auto& [name, child] : module.state_->children) self(self, child, joined(path, name));
  };
  walk(walk, *this, "");
  return out;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& p : parameters()) count += p.numel();
  return count;
}

void Module::apply(const Callback<void(Module&)>& function) {
  for (auto& child : state_->children) child.second.apply(function);
  function(*this);
}

void Module::train(bool on) {
  apply([on](Module& m) {
    m.state_->training = on;
    detail::follow_mode(m);
  });
}

bool Module::is_training() const { return state_->training; }

void Module::to(Device device, Location where) {
  detail::Replaced replaced;
  for (const Module& m : modules()) {
    for (auto* list : {&m.state_->parameters, &m.state_->buffers}) {
      for (auto& entry : *list) detail::move_entry(m.state_->slots, entry, device, replaced, where);
    }
    if (detail::LowRank* const adapter = detail::adapter_of(m)) adapter->move_sum(device, where);
  }
}

void Module::to(DType dtype, Location where) {
  if (!is_floating(dtype) || is_storage_only(dtype)) {
    raise<DTypeError>({.op = "Module::to",
                       .problem = fmt::format("parameters cannot be {}", name(dtype)),
                       .remedy = "use float16, bfloat16, float32 or float64"},
                      where);
  }
  detail::Replaced replaced;
  for (const Module& m : modules()) {
    for (auto* list : {&m.state_->parameters, &m.state_->buffers}) {
      for (auto& entry : *list) {
        if (is_floating(entry.tensor.dtype())) detail::move_entry(m.state_->slots, entry, dtype, replaced, where);
      }
    }
    if (detail::LowRank* const adapter = detail::adapter_of(m)) adapter->move_sum(dtype, where);
  }
}

void Module::zero_grad() {
  for (const Tensor& p : parameters()) p.set_grad({}, Location::none());
}

void Module::requires_grad_(bool on, Location where) {
  for (const Tensor& p : parameters()) p.requires_grad_(on, where);
}

// The saved tensors under all their paths; a shared tensor has several.
std::vector<NamedTensor> Module::saved_paths(const std::string& path, bool buffers) const {
  std::vector<NamedTensor> out;
  for (const auto* list : {&state_->parameters, &state_->buffers}) {
    if (list == &state_->buffers && !buffers) break;
    for (const auto& entry : *list) {
      if (entry.saved) out.push_back({joined(path, entry.name), entry.tensor});
    }
  }
  for (const auto& [name, child] : state_->children) {
    for (NamedTensor& below : child.saved_paths(joined(path, name), buffers)) out.push_back(std::move(below));
  }
  return out;
}

StateDict Module::state_dict(bool buffers, const std::string& prefix, bool keep_vars) const {
  StateDict out;
  std::unordered_set<const TensorImpl*> seen;
  const auto merged = detail::merged_adapters(*this);
  for (const auto& [name, tensor] : saved_paths("", buffers)) {
    if (!seen.insert(tensor.impl()).second) continue;
    const auto adapter = merged.find(tensor.impl());
    out.emplace(prefix + name, adapter != merged.end() ? adapter->second->unmerged()
                               : keep_vars             ? tensor
                                                       : tensor.detach());
  }
  return out;
}

namespace {

// Appends "missing: a, b" with a limited number of names; nothing if there are none.
void add_names(std::string& text, const char* what, const std::vector<std::string>& names) {
  constexpr size_t most = 8;
  if (names.empty()) return;
  const size_t shown = std::min(names.size(), most);
  text +=
      fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, fmt::join(names.begin(), names.begin() + shown, ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
}

}  // namespace

LoadReport Module::check_state_dict(const StateDict& values, bool strict, Location where) const {
  const auto renamed = detail::with_present_names(*this, values);
  return compare_state(renamed ? *renamed : values, strict, strict, where);
}

LoadReport Module::compare_state(const StateDict& values, bool strict, bool loads, Location where) const {
  LoadReport report;
  std::vector<std::string> misshapen;
  std::set<std::string> names;
  std::unordered_set<const TensorImpl*> given;
  const std::vector<NamedTensor> own = saved_paths("");
  for (const auto& [name, tensor] : own) {
    names.insert(name);
    const auto found = values.find(name);
    if (found == values.end()) continue;
    given.insert(tensor.impl());
    const Tensor& value = checked(found->second, "load_state_dict", where);
    if (!(value.shape() == tensor.shape())) {
      misshapen.push_back(fmt::format("{} {} for {}", name, value.shape().text(), tensor.shape().text()));
      report.mismatched.push_back(name);
    } else if (value.dtype() != tensor.dtype()) {
      report.converted.push_back(name);
    }
  }
  for (const auto& [name, tensor] : own) {
    if (given.insert(tensor.impl()).second) report.missing.push_back(name);
  }
  for (const auto& [name, value] : values) {
    if (!names.contains(name)) report.unexpected.push_back(name);
  }
  std::string details;
  add_names(details, "shape", misshapen);
  add_names(details, "missing", report.missing);
  add_names(details, "unexpected", report.unexpected);
  if (loads && !misshapen.empty()) {
    raise<ShapeError>({.op = "load_state_dict", .problem = "shapes differ", .details = details}, where);
  }
  if (strict && !(report.missing.empty() && report.unexpected.empty())) {
    raise<ValueError>({.op = "load_state_dict",
                       .problem = "the names are not the module's",
                       .details = details,
                       .remedy = "pass strict = false to load the tensors that fit"},
                      where);
  }
  return report;
}

LoadReport Module::load_state_dict(const StateDict& given, bool strict, Location where) {
  const auto renamed = detail::with_present_names(*this, given);
  const StateDict& values = renamed ? *renamed : given;
  LoadReport report = compare_state(values, strict, true, where);
  const CallScope call("load_state_dict", where);
  NoGradGuard unrecorded;
  std::vector<std::pair<Tensor, Tensor>>
      copies;  // all copies are made before the first write, because memory may run out
  for (const auto& [name, own] : saved_paths("")) {
    const Tensor tensor = own.detach();
    const auto found = values.find(name);
    if (found != values.end()) copies.emplace_back(tensor, unaliased(found->second.to(tensor.device()), tensor));
  }
  const detail::SuspendedMerges merged(*this);
  for (const auto& [tensor, value] : copies) tensor.copy_(value);
  merged.resume(values);
  return report;
}

namespace {

std::string indented(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return out;
}

// One line per child, "(0): Linear(...)". In a list, consecutive equal children are one line: "(0-2): 3 x Linear(...)".
std::vector<std::string> child_lines(const ModuleText& module) {
  struct Run {
    std::string first, last, text;
    int64_t count;
  };
  std::vector<Run> runs;
  for (const auto& [name, child] : module.children) {
    std::string text = indented(child);
    if (module.is_list && !runs.empty() && runs.back().text == text) runs.back().last = name, ++runs.back().count;
    else runs.push_back({name, name, std::move(text), 1});
  }
  std::vector<std::string> lines;
  for (const auto& [first, last, text, count] : runs) {
    lines.push_back(count == 1 ? fmt::format("({}): {}", first, text)
                               : fmt::format("({}-{}): {} x {}", first, last, count, text));
  }
  return lines;
}

}  // namespace

std::string ModuleText::text() const {
  std::vector<std::string> lines = child_lines(*this);
  const std::string extra = indented(extra_repr);
  if (lines.empty() && extra.find('\n') == std::string::npos) return fmt::format("{}({})", class_name, extra);
  if (!extra.empty()) lines.insert(lines.begin(), extra);
  return fmt::format("{}(\n  {}\n)", class_name, fmt::join(lines, "\n  "));
}

std::string Module::text() const {
  const std::string name = class_name();
  ModuleText module{(is_parametrized(*this) ? "Parametrized" : "") + name, extra_repr(), {}, name == "ModuleList"};
  for (const auto& [name, child] : state_->children) module.children.emplace_back(name, child.text());
  return module.text();
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << module.text(); }

}  // namespace weft::nn
