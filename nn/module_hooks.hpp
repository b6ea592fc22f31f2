// Hooks of modules: called before and after `forward`, and with the gradients of a call's outputs and inputs.
//
//   model.hidden.register_forward_hook([](const nn::ForwardEvent& e) { record(e.output()); });
//   model.hidden.register_backward_hook([](const GradEvent& e) { record(e.outgoing[0], e.incoming[0]); });
//
// docs/hooks.md has the rules on one page.
#pragma once

#include <array>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/autograd/hooks.hpp>

namespace weft::nn {

class Module;

/// What a forward hook is told; valid while the hook runs.
struct ForwardEvent {
  const Module& module;
  /// The tensors among the call's arguments.
  std::span<const Tensor> inputs;
  /// The tensors in what forward returned; none before it ran.
  std::span<const Tensor> outputs;
  Location location;

  const Tensor& input() const { return inputs[0]; }
  const Tensor& output() const { return outputs[0]; }
};

namespace detail {

using weft::detail::HookList;
using weft::detail::HookResult;

struct ForwardHook {
  std::function<void(const ForwardEvent&, HookResult&)> call;
  bool before;
  Location where;
  uint64_t id = 0;
};
}  // namespace detail
}  // namespace weft::nn

extern template class weft::detail::HookList<weft::nn::detail::ForwardHook>;

namespace weft::nn {
namespace detail {

struct ModuleHooks {
  ModuleHooks();
  const std::shared_ptr<HookList<ForwardHook>> forward;
  const std::shared_ptr<HookList<weft::detail::Hook>> backward;
};

/// One call of a module that has hooks.
class WEFT_API HookedCall {
 public:
  /// Runs the forward-pre hooks. With backward hooks the inputs that need gradients become aliases behind one node,
  /// where the gradients that this call sends to them meet, apart from those of other uses.
  HookedCall(const Module& module, const ModuleHooks& hooks, std::vector<Tensor> inputs, Location where);
  const Tensor& input(size_t i) const { return inputs_[i]; }
  /// Runs the forward hooks, which may replace outputs, and hooks the outputs' gradients.
  void finish(std::span<Tensor* const> outputs);

 private:
  struct Backward;
  void run(bool before, std::vector<Tensor>& tensors);

  const Module& module_;
  const ModuleHooks& hooks_;
  Location where_;
  std::vector<Tensor> inputs_;
  std::shared_ptr<Backward> backward_;
};

template <class T>
inline constexpr bool is_tensor = std::is_convertible_v<const std::remove_cvref_t<T>*, const Tensor*>;

// The tensors in what forward returned.
WEFT_API void collect_tensors(std::vector<Tensor*>& out, Tensor& t);
template <class T>
void collect_tensors(std::vector<Tensor*>& out, std::vector<T>& list);
template <class... T>
void collect_tensors(std::vector<Tensor*>& out, std::tuple<T...>& list);
template <class A, class B>
void collect_tensors(std::vector<Tensor*>& out, std::pair<A, B>& both);
template <class T>
void collect_tensors(std::vector<Tensor*>&, T&) requires(!is_tensor<T>) {}

template <class T>
void collect_tensors(std::vector<Tensor*>& out, std::vector<T>& list) {
  for (T& item : list) collect_tensors(out, item);
}
template <class... T>
void collect_tensors(std::vector<Tensor*>& out, std::tuple<T...>& list) {
  std::apply([&](T&... item) { (collect_tensors(out, item), ...); }, list);
}
template <class A, class B>
void collect_tensors(std::vector<Tensor*>& out, std::pair<A, B>& both) {
  collect_tensors(out, both.first);
  collect_tensors(out, both.second);
}

/// forward(x, more...) with the module's hooks around it.
template <class Forward, class... More>
auto call_with_hooks(const Module& module, const ModuleHooks& hooks, Location where, const Forward& forward,
                     const Tensor& x, More&&... more) {
  std::vector<Tensor> inputs{x};
  [[maybe_unused]] const auto add = [&](const auto& argument) {
    if constexpr (is_tensor<decltype(argument)>) inputs.push_back(argument);
  };
  (add(more), ...);
  HookedCall call(module, hooks, std::move(inputs), where);
  size_t next = 1;
  [[maybe_unused]] const auto hooked = [&]<class T>(T&& argument) -> decltype(auto) {
    if constexpr (is_tensor<T>) return call.input(next++);
    else return std::forward<T>(argument);
  };
  // Braces evaluate in order, so each tensor gets its own.
  auto result =
      std::apply([&](auto&&... a) { return forward(call.input(0), std::forward<decltype(a)>(a)...); },
                 std::tuple<decltype(hooked(std::forward<More>(more)))...>{hooked(std::forward<More>(more))...});
  std::vector<Tensor*> outputs;
  collect_tensors(outputs, result);
  call.finish({outputs.data(), outputs.size()});
  return result;
}

}  // namespace detail
}  // namespace weft::nn
