// Module hooks: called before and after `forward`, and with the gradients of a call's outputs and inputs.
//
//   model.hidden.register_forward_hook([](const nn::ForwardEvent& e) { record(e.output()); });
//   model.hidden.register_backward_hook([](const GradEvent& e) { record(e.outgoing[0], e.incoming[0]); });
//
// docs/hooks.md lists the rules.
//
// Backward hooks insert a node before the inputs and not behind the outputs: its outputs are aliases of the inputs.
// So an in-place op after the module acts on an ordinary tensor.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../autograd/hooks.hpp"
#include "../hooks/checkpoint.hpp"

namespace weft::nn {

class Module;

enum class ForwardPhase : uint8_t {
  before,
  after,
  failed  ///< the forward, or a hook of this call, threw
};

/// The argument of a forward hook; valid while the hook runs.
struct ForwardEvent {
  const Module& module;
  /// The tensors among the call's arguments.
  std::span<const Tensor> inputs;
  /// The tensors in the result of forward; empty before it ran and if it failed.
  std::span<const Tensor> outputs;
  Location location;
  ForwardPhase phase = ForwardPhase::before;

  /// The first input or output. Raises ValueError if there is none.
  const Tensor& input() const { return first(inputs, "inputs"); }
  const Tensor& output() const { return first(outputs, "outputs"); }

 private:
  WEFT_API const Tensor& first(std::span<const Tensor> tensors, const char* kind) const;
};

namespace detail {

using weft::detail::HookList;
using weft::detail::HookResult;

enum class CallEnd : uint8_t { before, after, both };

struct ForwardHook {
  Callback<void(const ForwardEvent&, HookResult&)> call;
  CallEnd at;
  Location where;
  uint64_t id = 0;
  Shared<const weft::detail::Setting> setting = {};
};
}  // namespace detail
}  // namespace weft::nn

extern template class weft::detail::HookList<weft::nn::detail::ForwardHook>;

namespace weft::nn {
namespace detail {

struct ModuleHooks {
  ModuleHooks();
  const Shared<HookList<ForwardHook>> forward;
  const Shared<HookList<weft::detail::Hook>> backward;
  // Whether calls are checkpointed (nn/checkpointing.hpp).
  Atomic<bool> recomputes{false};
};

/// One call of a module that has hooks.
class WEFT_API HookedCall {
 public:
  /// Runs the forward-pre hooks. With backward hooks, inputs that require gradients become aliases of one node, which
  /// collects the gradients of this call separately from those of other uses.
  HookedCall(const Module& module, const ModuleHooks& hooks, std::vector<Tensor> inputs, Location where);
  /// Runs the call hooks of a call that did not finish.
  ~HookedCall() {
    if (WEFT_UNLIKELY(!begun_.empty())) fail();
  }
  HookedCall(const HookedCall&) = delete;
  const Tensor& input(size_t i) const { return inputs_[i]; }
  /// Runs the forward hooks, which may replace outputs, and attaches the backward hooks to the outputs.
  void finish(std::span<Tensor* const> outputs);

 private:
  struct Backward;
  struct Unbegun {};
  HookedCall(const Module& module, const ModuleHooks& hooks, std::vector<Tensor> inputs, Location where, Unbegun);
  void run(ForwardPhase phase, std::vector<Tensor>& tensors);
  void fail() noexcept;

  const Module& module_;
  const ModuleHooks& hooks_;
  Location where_;
  std::vector<Tensor> inputs_;
  Shared<Backward> backward_;
  /// Ids of the call hooks that are still to be called at the end.
  std::vector<uint64_t> begun_;
};

template <class T>
inline constexpr bool is_tensor = std::is_convertible_v<const std::remove_cvref_t<T>*, const Tensor*>;

template <class T>
concept ListOfTensors = requires(T& list) {
  list.begin();
  list.end();
}
&&std::is_lvalue_reference_v<decltype(*std::declval<T&>().begin())>;
template <class T>
concept TupleOfTensors = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept SaysItsTensors = requires(T& t) {
  t.tensors();
};

// Whether hooks find tensors in a T: a tensor, a container, tuple or optional with tensors, or a type with `auto
// tensors() { return std::tie(...); }`.
template <class T>
struct HoldsTensors : std::bool_constant<is_tensor<T> || SaysItsTensors<T>> {};
template <class T>
inline constexpr bool holds_tensors = HoldsTensors<T>::value;
template <class T>
struct HoldsTensors<const T> : std::false_type {};
template <class T>
struct HoldsTensors<std::optional<T>> : HoldsTensors<T> {};
template <ListOfTensors T>
  requires(!SaysItsTensors<T> && !TupleOfTensors<T>)
struct HoldsTensors<T> : HoldsTensors<std::remove_reference_t<decltype(*std::declval<T&>().begin())>> {};
template <class... T>
struct HoldsTensors<std::tuple<T...>> : std::bool_constant<(HoldsTensors<std::remove_reference_t<T>>::value || ...)> {};
template <class A, class B>
struct HoldsTensors<std::pair<A, B>> : std::bool_constant<HoldsTensors<A>::value || HoldsTensors<B>::value> {};
template <class T, size_t n>
struct HoldsTensors<std::array<T, n>> : HoldsTensors<T> {};

template <class T>
void collect_tensors(std::vector<Tensor*>& out, T& value) {
  if constexpr (is_tensor<T>) {
    out.push_back(&value);
  } else if constexpr (!holds_tensors<T>) {
    return;
  } else if constexpr (SaysItsTensors<T>) {
    auto members = value.tensors();
    collect_tensors(out, members);
  } else if constexpr (ListOfTensors<T>) {
    for (auto& item : value) collect_tensors(out, item);
  } else if constexpr (TupleOfTensors<T>) {
    std::apply([&](auto&... item) { (collect_tensors(out, item), ...); }, value);
  } else if (value.has_value()) {
    collect_tensors(out, *value);
  }
}

// Calls `function` with each tensor in a tuple of arguments.
template <class Kept, class F>
void for_each_tensor(Kept& kept, const F& function) {
  std::vector<Tensor*> places;
  std::apply([&](auto&... argument) { (collect_tensors(places, argument), ...); }, kept);
  for (Tensor* t : places) function(*t);
}

// How a call with hooks stores an argument: by value if it contains tensors, so that hooks may replace them.
template <class T>
struct Kept {
  using Value = std::remove_cvref_t<T>;
  using type = std::conditional_t<is_tensor<T> || std::same_as<Value, Indexed>, Tensor,
                                  std::conditional_t<holds_tensors<Value>, Value, T&&>>;
};
template <class T>
using KeptArgument = typename Kept<T>::type;

template <class... Arguments>
using KeptArguments = std::tuple<KeptArgument<Arguments>...>;

template <class M, class Forward, class... Arguments>
auto call_kept(M& module, const Forward& forward, KeptArguments<Arguments...>& kept, std::tuple<Arguments...>*) {
  return std::apply(
      [&](auto&... argument) { return forward(module, static_cast<KeptArgument<Arguments>&&>(argument)...); }, kept);
}

// Passes a copy on with the value category of the original argument; an array as a pointer.
template <class Kept, class Copy>
decltype(auto) given_again(Copy& copy) {
  if constexpr (std::is_same_v<Copy, std::remove_cvref_t<Kept>>) return static_cast<Kept&&>(copy);
  else return (copy);
}

[[noreturn]] WEFT_API void raise_not_copied(const Module& module, Location where);

/// As call_kept, but checkpointed: the recomputation uses copies of the module and the arguments.
template <class M, class Forward, class... Arguments>
auto call_checkpointed(M& module, Location where, const Forward& forward, KeptArguments<Arguments...>& kept,
                       std::tuple<Arguments...>* types) {
  using Copies = std::tuple<std::decay_t<KeptArgument<Arguments>>...>;
  if constexpr (std::is_constructible_v<Copies, KeptArguments<Arguments...>&> && std::is_copy_constructible_v<Copies> &&
                std::is_copy_constructible_v<M>) {
    std::vector<Tensor> inputs;
    Copies without(kept);
    for_each_tensor(without, [&](Tensor& t) { inputs.push_back(std::exchange(t, Tensor())); });
    const auto again = [module = std::remove_const_t<M>(module), without,
                        forward](std::span<const Tensor> then) mutable {
      Copies arguments = without;
      size_t i = 0;
      for_each_tensor(arguments, [&](Tensor& t) { t = then[i++]; });
      std::apply([&](auto&... a) { (void)forward(module, given_again<KeptArgument<Arguments>>(a)...); }, arguments);
    };
    weft::detail::CheckpointCall call(std::move(inputs), again, where);
    const auto scope = call.hooks();
    return call_kept(module, forward, kept, types);
  } else {
    raise_not_copied(module, where);
    return call_kept(module, forward, kept, types);
  }
}

/// Calls forward(module, arguments...) with the module's hooks.
template <class M, class Forward, class... Arguments>
auto call_with_hooks(M& module, const ModuleHooks& hooks, Location where, const Forward& forward,
                     Arguments&&... arguments) {
  KeptArguments<Arguments...> kept(std::forward<Arguments>(arguments)...);
  std::vector<Tensor*> places;
  for_each_tensor(kept, [&](Tensor& t) { places.push_back(&t); });
  std::vector<Tensor> inputs(places.size());
  for (size_t i = 0; i < places.size(); ++i) inputs[i] = *places[i];
  HookedCall call(module, hooks, std::move(inputs), where);
  for (size_t i = 0; i < places.size(); ++i) *places[i] = call.input(i);
  std::tuple<Arguments...>* types = nullptr;
  auto result = hooks.recomputes.load(MemoryOrder::relaxed) && recording()
                    ? call_checkpointed(module, where, forward, kept, types)
                    : call_kept(module, forward, kept, types);
  places.clear();
  collect_tensors(places, result);
  std::erase_if(places, [](const Tensor* t) { return !t->defined(); });
  call.finish({places.data(), places.size()});
  return result;
}

/// Runs and copies a layer that takes one tensor and returns one; all such layers share one call_with_hooks.
struct OneTensorForward {
  Tensor (*run)(Module& module, const Tensor& x, Location where);
  Shared<Module> (*copy)(const Module& module);  ///< null if the module cannot be copied
};
WEFT_API Tensor call_with_hooks(Module& module, const ModuleHooks& hooks, const OneTensorForward& forward,
                                const Tensor& x, Location where);

}  // namespace detail
}  // namespace weft::nn
