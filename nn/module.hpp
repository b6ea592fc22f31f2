// Modules: values that hold parameters, buffers and other modules by name.
//
//   struct Net : nn::Layer<Net> {
//     nn::Linear hidden{2, 16}, out{16, 1};
//     Net() { register_module("hidden", hidden), register_module("out", out); }
//     Tensor forward(const Tensor& x) const { return out(tanh(hidden(x))); }
//   };
//   Net net;
//   Tensor y = net(x);
//
// Copies of a module share parameters, buffers, children and the training flag; `clone` makes one that shares nothing.
// Thread-safety is that of Tensor: many threads may call one module, changing it needs the caller's own lock.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weft/nn/module_hooks.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft::nn {

/// A tensor that a module holds. It is one tensor for all copies of the module, and `Module::to` moves it in place, so
/// that optimizers and other holders follow. Not made directly: see Parameter and Buffer.
class WEFT_API Held : public Tensor {
 public:
  Held() = default;
  Held(const Held& other);
  Held(Held&&) noexcept = default;
  Held& operator=(const Held&) = default;
  Held& operator=(Held&&) noexcept = default;

 protected:
  Held(const Tensor& tensor, bool requires_grad, Location where);
};

/// A leaf that requires a gradient, over the memory of the given tensor. DTypeError or ValueError unless it is f16,
/// bf16, f32 or f64. The default one is undefined: registering it says that the module goes without.
class WEFT_API Parameter : public Held {
 public:
  Parameter() = default;
  Parameter(const Tensor& tensor, Location where = {}) : Held(tensor, true, where) {}
};

/// State that is saved and moved with the module but not trained, of any dtype, over the memory of the given tensor.
class WEFT_API Buffer : public Held {
 public:
  Buffer() = default;
  Buffer(const Tensor& tensor, Location where = {}) : Held(tensor, false, where) {}
};

/// A tensor and its path from the module asked: "blocks.0.norm1.weight".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};
using StateDict = std::map<std::string, Tensor>;

/// What did not go smoothly in `load_state_dict`, by name.
struct LoadReport {
  /// In the module, not in the dictionary: left as they were.
  std::vector<std::string> missing;
  /// In the dictionary, not in the module.
  std::vector<std::string> unexpected;
  /// Of another dtype: converted to the module's.
  std::vector<std::string> converted;
};

class WEFT_API Module {
 public:
  Module();
  Module(const Module& other);
  Module& operator=(const Module& other) = default;

  /// All parameters, children's included, in order of registration; a shared one once.
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_parameters() const;
  std::vector<Tensor> buffers() const;
  std::vector<NamedTensor> named_buffers() const;
  /// Those registered here, in order. They are handles: changing one changes this module's.
  std::vector<std::pair<std::string, Module>> children() const;
  /// Number of elements of all parameters.
  int64_t parameter_count() const;

  /// Switches this module and all below to training (the start) or to evaluation; dropout obeys it.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const;

  /// Moves parameters, buffers and gradients in place: every holder of them, optimizers too, sees the new ones.
  /// DeviceError where there is no such device.
  void to(Device device, Location where = {});
  /// Converts floating-point parameters, buffers and gradients in place. DTypeError unless `dtype` is f16, bf16, f32,
  /// f64.
  void to(DType dtype, Location where = {});
  /// Drops every gradient: `.grad()` is undefined until the next backward.
  void zero_grad();
  /// Switches gradients of all parameters on or off.
  void requires_grad_(bool on = true, Location where = {});
  /// Calls `function` with every module below, children first, then with this one.
  void apply(const std::function<void(Module&)>& function);

  /// Parameters and buffers by name, outside the graph, sharing memory with the module; a shared one under its first
  /// name.
  StateDict state_dict() const;
  /// Copies the values in; the dictionary may be on another device. ShapeError where a shape differs, and with `strict`
  /// ValueError where a name is missing or unexpected; both name them all, and then nothing was changed.
  LoadReport load_state_dict(const StateDict& values, bool strict = true, Location where = {});

  /// Called before `forward` with a ForwardEvent or the first input; what it returns replaces the first input, or all
  /// of them (a vector). Hooks belong to all copies of the module, not to clones; they run in order of registration.
  template <class F>
  HookHandle register_forward_pre_hook(F&& hook, Location where = {}) {
    const auto pick = [](const ForwardEvent& e) -> const Tensor& { return e.input(); };
    return add_hook({.call = weft::detail::hook_function<ForwardEvent>(std::forward<F>(hook), pick),
                     .before = true,
                     .where = where});
  }
  /// Called after `forward` with a ForwardEvent or the first output; what it returns replaces the output.
  template <class F>
  HookHandle register_forward_hook(F&& hook, Location where = {}) {
    const auto pick = [](const ForwardEvent& e) -> const Tensor& { return e.output(); };
    return add_hook({.call = weft::detail::hook_function<ForwardEvent>(std::forward<F>(hook), pick),
                     .before = false,
                     .where = where});
  }
  /// Called in backward when the gradient of an output of a call is complete, with a GradEvent (`incoming`: those of
  /// the outputs that arrived) or that gradient; what it returns replaces it.
  template <class F>
  HookHandle register_backward_pre_hook(F&& hook, Location where = {}) {
    return add_hook({.call = weft::detail::hook_function(std::forward<F>(hook), weft::detail::gradient_of),
                     .phase = GradPhase::module_before,
                     .where = where});
  }
  /// Called in backward when the gradients that a call sends to its inputs are complete, with a GradEvent (`outgoing`)
  /// or that of the first input; what it returns replaces the first, or all of them (a vector). Other uses of an input
  /// are not in its sum. Where no input needs a gradient it is called once the output's has arrived.
  template <class F>
  HookHandle register_backward_hook(F&& hook, Location where = {}) {
    return add_hook({.call = weft::detail::hook_function(std::forward<F>(hook), weft::detail::gradient_of),
                     .phase = GradPhase::module_after,
                     .where = where});
  }

  /// True where both are copies of one module.
  bool same_as(const Module& other) const { return state_ == other.state_; }

 protected:
  // Names are unique in a module and hold no dot; else ValueError. Undefined parameters and buffers are left out.
  void register_parameter(std::string name, Parameter& parameter, Location where = {});
  void register_buffer(std::string name, Buffer& buffer, Location where = {});
  void register_module(std::string name, Module& module, Location where = {});

  /// Null for a module that never had a hook.
  const detail::ModuleHooks* hooks() const;

 private:
  HookHandle add_hook(detail::ForwardHook hook);
  HookHandle add_hook(weft::detail::Hook hook);

  struct State;
  std::shared_ptr<State> state_;
};

/// The tensor a module is called with, and the place of that call.
struct Input {
  Input(const Tensor& tensor_, Location where_ = {}) : tensor(tensor_), where(where_) {}
  const Tensor& tensor;
  Location where;
};

namespace detail {
/// While one lives, copy constructors of modules on this thread copy deeply, each shared part once.
class WEFT_API CloneScope {
 public:
  CloneScope();
  ~CloneScope();
  CloneScope(const CloneScope&) = delete;

  struct Memo;

 private:
  std::unique_ptr<Memo> memo_;
  Memo* outer_;
};
}  // namespace detail

/// A module like `module` that shares nothing with it: parameters and buffers are copied (gradients are not), those
/// shared inside stay shared inside. Tensors held outside Parameter and Buffer are shared.
template <std::derived_from<Module> M>
M clone(const M& module) {
  const detail::CloneScope scope;
  return M(module);
}

/// A module that is called: derive `struct Net : nn::Layer<Net>` and write `forward`. Calls go through `operator()`,
/// which passes the place of the call as a last argument where `forward` takes a Location.
template <class Self>
class Layer : public Module {  // NOLINT(bugprone-crtp-constructor-accessibility): `Net{}` must work
 public:
  template <class... More>
  auto operator()(Input x, More&&... more) const {
    return call(static_cast<const Self&>(*this), x, std::forward<More>(more)...);
  }
  template <class... More>
  auto operator()(Input x, More&&... more) {
    return call(static_cast<Self&>(*this), x, std::forward<More>(more)...);
  }
  /// See nn::clone.
  Self clone() const { return nn::clone(static_cast<const Self&>(*this)); }

 private:
  template <class Module_, class... More>
  static auto call(Module_& self, const Input& x, More&&... more) {
    const auto forward = [&](const Tensor& input, auto&&... arguments) {
      if constexpr (requires { self.forward(input, std::forward<decltype(arguments)>(arguments)..., x.where); }) {
        return self.forward(input, std::forward<decltype(arguments)>(arguments)..., x.where);
      } else {
        return self.forward(input, std::forward<decltype(arguments)>(arguments)...);
      }
    };
    if (const detail::ModuleHooks* hooks = self.Module::hooks(); WEFT_LIKELY(hooks == nullptr)) {
      return forward(x.tensor, std::forward<More>(more)...);
    } else {
      return detail::call_with_hooks(self, *hooks, x.where, forward, x.tensor, std::forward<More>(more)...);
    }
  }
};

}  // namespace weft::nn
