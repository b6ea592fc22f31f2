// Modules: classes that hold parameters, buffers and other modules by name.
//
//   struct Net : nn::Layer<Net> {
//     nn::Linear hidden{2, 16}, out{16, 1};
//     Net() { WEFT_REGISTER(hidden, out); }
//     Tensor forward(const Tensor& x) const { return out(tanh(hidden(x))); }
//   };
//   Net net;
//   Tensor y = net(x);
//   std::cout << net;
//
// Members that are not registered have no name: optimizers, files and `to` do not see them. A warning is given if a
// module with parameters is called inside another's `forward` without being registered.
//
// Assigning to a registered member, `net.fc = nn::Linear(8, 2)` or `head.weight = token.weight`, replaces it in the
// module and in all its copies.
//
// Copies of a module share parameters, buffers, children and the training flag; `clone` returns a deep copy. Thread
// safety is that of Tensor: several threads may call one module; changing it needs the caller's own lock.
#pragma once

#include <concepts>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "module_hooks.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/index.hpp"
#include "../tensor/pimpl.hpp"
#include "../tensor/type_id.hpp"

namespace weft::nn {

namespace detail {
template <class...>
inline constexpr bool unmet = false;

/// A registered member: its entry in the module's state, and all objects that refer to it.
struct Slot;

/// A node of an intrusive list.
struct Link {
  const void* object = nullptr;
  Link* next = nullptr;
  Link** from = nullptr;  ///< the pointer to this link, null if it is not in a list

  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
};
}  // namespace detail

/// A tensor of a module. All copies of the module share it, and `Module::to` moves it in place, so that optimizers and
/// other holders see the change. Assigning to a registered member replaces the tensor in the module, in its copies and
/// in `parameters()`; an undefined tensor removes it. Raises ValueError if the member is parametrized, adapted by LoRA
/// or quantized. Only the derived classes Parameter and Buffer are constructed.
class WEFT_API ModuleTensor : public Tensor {
 public:
  ModuleTensor() = default;
  ModuleTensor(const ModuleTensor& other);
  ModuleTensor(ModuleTensor&& other) noexcept;
  ModuleTensor& operator=(const ModuleTensor& other);
  ModuleTensor& operator=(ModuleTensor&& other);  // NOLINT(performance-noexcept-move-constructor): it may raise
  ~ModuleTensor();

 protected:
  ModuleTensor(const Tensor& tensor, bool requires_grad, Location where);

 private:
  friend struct detail::Slot;
  Shared<detail::Slot> slot_;
  detail::Link link_;  // in the list of the slot's tensors
};

/// A leaf that requires a gradient, over the memory of the given tensor. A default-constructed one is undefined:
/// registering it declares that the module has no such parameter. Raises DTypeError or ValueError unless it is f16,
/// bf16, f32 or f64.
class WEFT_API Parameter : public ModuleTensor {
 public:
  Parameter() = default;
  Parameter(const Tensor& tensor, Location where = {}) : ModuleTensor(tensor, true, where) {}
};

/// State of any dtype that is saved and moved with the module but not trained, over the memory of the given tensor.
class WEFT_API Buffer : public ModuleTensor {
 public:
  Buffer() = default;
  Buffer(const Tensor& tensor, Location where = {}) : ModuleTensor(tensor, false, where) {}
};

/// The tensor that `forward` uses for a member: the member itself, by reference, or its computed value. See
/// Module::borrowed.
class MemberTensor {
 public:
  explicit MemberTensor(const ModuleTensor& member, Tensor computed = {})
      : member_(&member), computed_(std::move(computed)) {}
  const Tensor& get() const { return computed_.defined() ? computed_ : *member_; }
  operator const Tensor&() const { return get(); }

 private:
  const Tensor* member_;
  Tensor computed_;
};

/// A tensor and its path, relative to the module that was queried: "blocks.0.norm1.weight".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};
using StateDict = std::map<std::string, Tensor>;

/// Differences found by `load_state_dict`, by name.
struct LoadReport {
  /// In the module but not in the dictionary; left unchanged.
  std::vector<std::string> missing;
  /// In the dictionary but not in the module.
  std::vector<std::string> unexpected;
  /// With a different shape. Loading raises; only a non-strict check reports them.
  std::vector<std::string> mismatched;
  /// With a different dtype: converted to the module's.
  std::vector<std::string> converted;
};

/// The contents of `Module::text`: the class name, the text in parentheses, and the children with their texts. In a
/// list, consecutive equal children are printed as one line.
struct ModuleText {
  std::string class_name, extra_repr;
  std::vector<std::pair<std::string, std::string>> children;
  bool is_list = false;

  WEFT_API std::string text() const;
};

class Config;
class Module;
namespace detail {
struct StateAccess;

// One call of a module's `forward` on this thread.
class WEFT_API ForwardScope {
 public:
  ForwardScope(const Module& module, Location where) : module_(&module), outer_(std::exchange(running, this)) {
    if (WEFT_UNLIKELY(outer_ != nullptr)) check_registered(module, *outer_->module_, where);
  }
  ~ForwardScope() {
    running = outer_;
    if (WEFT_UNLIKELY(undo_ != nullptr)) finish();
  }
  ForwardScope(const ForwardScope&) = delete;
  /// For a parametrization that changes its state: `undo` is called if the enclosing call of the layer raises.
  static void undo_on_failure(Callback<void()> undo);

 private:
  struct Undo;
  static void check_registered(const Module& module, const Module& outer, Location where);
  void finish() noexcept;
  static constinit thread_local const ForwardScope* running;
  const Module* module_;
  const ForwardScope* outer_;
  mutable Undo* undo_ = nullptr;
};
}  // namespace detail

/// In a constructor: registers members under their own names. `WEFT_REGISTER(hidden, out, scale);`
#define WEFT_REGISTER(...) this->register_members(#__VA_ARGS__, ::weft::Location(), __VA_ARGS__)

class WEFT_API Module {
 public:
  Module();
  Module(const Module& other);
  Module& operator=(const Module& other);
  ~Module();

  /// All parameters of this module and its children, in order of registration, without duplicates.
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_parameters() const;
  std::vector<Tensor> buffers() const;
  std::vector<NamedTensor> named_buffers() const;
  /// Direct children, in order. They are handles: changing one changes the child of this module.
  std::vector<Module> children() const;
  std::vector<std::pair<std::string, Module>> named_children() const;
  /// This module (named "") and all below, parents first, each once under its first path.
  std::vector<Module> modules() const;
  std::vector<std::pair<std::string, Module>> named_modules() const;
  /// Number of elements of all parameters.
  int64_t parameter_count() const;

  /// Sets training mode (the default) or evaluation mode for this module and all below; dropout depends on it.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const;

  /// Moves parameters, buffers and gradients in place, so that all holders, including optimizers, see the change.
  /// Raises DeviceError if the device does not exist.
  void to(Device device, Location where = {});
  /// Converts floating-point parameters, buffers and gradients in place. Raises DTypeError unless `dtype` is f16, bf16,
  /// f32 or f64.
  void to(DType dtype, Location where = {});
  /// Clears all gradients: `.grad()` is undefined until the next backward.
  void zero_grad();
  /// Sets requires_grad of all parameters.
  void requires_grad_(bool on = true, Location where = {});
  /// Calls `function` with every module below, children first, then with this one.
  void apply(const Callback<void(Module&)>& function);

  /// Parameters, and with `buffers` also buffers, by `prefix` + name; a shared tensor under its first name. They share
  /// memory with the module, and are detached from the graph unless `keep_vars` is true. Buffers registered as not
  /// `saved` are excluded.
  StateDict state_dict(bool buffers = true, const std::string& prefix = {}, bool keep_vars = false) const;
  /// Copies the values into the module, from any device. A shared tensor may have any of its names; the older PyTorch
  /// names "weight_g" and "weight_v" of weight_norm are accepted. Raises ShapeError for a different shape, and with
  /// `strict` ValueError for missing and unexpected names. Both list the names, and then nothing is changed.
  LoadReport load_state_dict(const StateDict& values, bool strict = true, Location where = {});
  /// Returns the report of `load_state_dict`, or raises its errors, without changing anything.
  LoadReport check_state_dict(const StateDict& values, bool strict = true, Location where = {}) const;

  /// Registers a hook that is called before `forward` with a ForwardEvent or the first input. Its result, if any,
  /// replaces the first input, or all of them (a vector). Copies of the module share hooks, clones do not. Hooks run in
  /// order of registration.
  template <class F>
  HookHandle register_forward_pre_hook(F&& hook, Location where = {}) {
    const auto pick = [](const ForwardEvent& e) -> const Tensor& { return e.input(); };
    return add_hook({.call = weft::detail::hook_function<ForwardEvent>(std::forward<F>(hook), pick),
                     .at = detail::CallEnd::before,
                     .where = where});
  }
  /// Registers a hook that is called after `forward` with a ForwardEvent or the first output. Its result, if any,
  /// replaces the output.
  template <class F>
  HookHandle register_forward_hook(F&& hook, Location where = {}) {
    const auto pick = [](const ForwardEvent& e) -> const Tensor& { return e.output(); };
    return add_hook({.call = weft::detail::hook_function<ForwardEvent>(std::forward<F>(hook), pick),
                     .at = detail::CallEnd::after,
                     .where = where});
  }
  /// Registers a hook that is called with a ForwardEvent before each call, and exactly once at its end, with `phase`
  /// `after`, or `failed` if the call threw. A removed hook is not called again. Its result is ignored, and so are its
  /// exceptions when a call failed.
  template <class F>
  HookHandle register_call_hook(F&& hook, Location where = {}) {
    const auto pick = [](const ForwardEvent& e) -> const Tensor& { return e.input(); };
    return add_hook({.call = weft::detail::hook_function<ForwardEvent>(std::forward<F>(hook), pick),
                     .at = detail::CallEnd::both,
                     .where = where});
  }
  /// Registers a hook that is called in backward when the gradient of an output of a call is complete. It takes that
  /// gradient or a GradEvent (`incoming`: the gradients that arrived so far). Its result, if any, replaces the
  /// gradient.
  template <class F>
  HookHandle register_backward_pre_hook(F&& hook, Location where = {}) {
    return add_hook({.call = weft::detail::hook_function(std::forward<F>(hook), weft::detail::gradient_of),
                     .phase = GradPhase::module_before,
                     .where = where});
  }
  /// Registers a hook that is called in backward when the gradients of a call's inputs are complete. It takes the
  /// gradient of the first input or a GradEvent (`outgoing`). Its result, if any, replaces the first gradient, or all
  /// of them (a vector). The gradients exclude other uses of an input. If no input requires a gradient, it is called
  /// when the output's gradient arrives.
  template <class F>
  HookHandle register_backward_hook(F&& hook, Location where = {}) {
    return add_hook({.call = weft::detail::hook_function(std::forward<F>(hook), weft::detail::gradient_of),
                     .phase = GradPhase::module_after,
                     .where = where});
  }

  /// The value of a member: the member itself, or its computed value if it is parametrized (nn/parametrize.hpp).
  Tensor value_of(const ModuleTensor& member, Location where = {}) const { return borrowed(member, where).get(); }
  /// As value_of, without incrementing the member's reference count: for a forward that is called often.
  MemberTensor borrowed(const ModuleTensor& member, Location where = {}) const;

  /// For an error of the compiler: a Module has no `forward`, and a Layer hides this.
  template <class... Arguments>
  void operator()(Arguments&&...) const {
    static_assert(detail::unmet<Arguments...>,
                  "a Module cannot be called: derive `struct Net : nn::Layer<Net>` with a public forward(), and call "
                  "the elements of a ModuleList or ModuleDict");
  }

  /// True if both are copies of one module.
  bool same_as(const Module& other) const { return state_ == other.state_; }

  /// The options passed to `set_config`; empty if it was not called.
  const Config& config() const;
  /// The name of its class, without namespaces and template arguments.
  std::string class_name() const;
  const std::string& extra_repr() const;
  /// The module tree as PyTorch prints it, without a final newline.
  std::string text() const;

 protected:
  explicit Module(TypeId type);

  // Names are unique in a module and contain no dot; otherwise ValueError. Undefined parameters and buffers are not
  // listed.
  void register_parameter(std::string name, Parameter& parameter, Location where = {});
  void register_buffer(std::string name, Buffer& buffer, Location where = {}, bool saved = true);
  void register_module(std::string name, Module& module, Location where = {});

  /// The body of WEFT_REGISTER: registers each member under its own name; `names` are "first, second".
  template <class... Members>
  void register_members(std::string_view names, Location where, Members&... members) {
    (register_member(next_name(names), members, where), ...);
  }
  /// For constructors: sets the options that recreate the module (nn/config.hpp), for model files. `text` prints them
  /// unless `set_extra_repr` is called.
  void set_config(const Config& config);
  /// Sets the text in parentheses in `text`: "in_features=2, bias=True".
  void set_extra_repr(std::string text);
  /// Overrides the result of `class_name`.
  void set_class_name(std::string name);

  /// Null if the module never had a hook.
  const detail::ModuleHooks* hooks() const;

  /// For copy constructors of classes with members: links the members of this object to the registered members of
  /// `other`.
  void become_copy(const Module& other);
  /// For assignments of such classes, in place of Module's assignment: also replaces a registered member in its parent.
  void assign(const Module& other);

 private:
  friend class detail::ForwardScope;
  friend class OpenModule;
  friend class ModuleRegistry;
  friend struct detail::Slot;
  friend struct detail::StateAccess;

  template <class Member>
  void register_member(std::string name, Member& member, Location where) {
    if constexpr (std::derived_from<Member, Module>) {
      register_module(std::move(name), member, where);
      if constexpr (std::is_copy_assignable_v<Member>) {
        set_replacement(member, [](Module& to, const Module& from) {
          static_cast<Member&>(to) = static_cast<const Member&>(from);
        });
      }
    } else if constexpr (std::derived_from<Member, Buffer>) register_buffer(std::move(name), member, where);
    else register_parameter(std::move(name), member, where);
  }
  /// Removes the first name from the list and returns it.
  static std::string next_name(std::string_view& names);
  static void set_replacement(const Module& member, void (*assign)(Module& to, const Module& from));
  /// Adds this object to the objects in which the state's slots look for members.
  void track();
  HookHandle add_hook(detail::ForwardHook hook);
  HookHandle add_hook(weft::detail::Hook hook);
  std::vector<NamedTensor> saved_paths(const std::string& path, bool buffers = true) const;
  LoadReport compare_state(const StateDict& values, bool strict, bool loads, Location where) const;

  struct State;
  Shared<State> state_;
  Shared<detail::Slot> slot_;      // in the parent
  detail::Link link_;              // in the list of the slot's modules
  mutable detail::Link tracking_;  // in the list of the state's modules
  bool tracked_ = false;
};

namespace detail {
/// While it exists, copy constructors of modules on this thread make deep copies, of each shared object once.
class WEFT_API CloneScope {
 public:
  CloneScope();
  ~CloneScope();
  CloneScope(const CloneScope&) = delete;

  struct Memo;

 private:
  weft::detail::Pimpl<Memo> memo_;
  Memo* outer_;
};
}  // namespace detail

/// A deep copy of `module`: parameters and buffers are copied, gradients are not. Sharing inside the module is
/// preserved. Tensors outside of Parameter and Buffer are shared with the original.
template <std::derived_from<Module> M>
M clone(const M& module) {
  const detail::CloneScope scope;
  return M(module);
}

namespace detail {

/// The first argument of a module call, as its `forward` takes it, with the location of the call.
template <class First>
class Argument {
  using Value = std::remove_cvref_t<First>;
  // An undefined tensor marks "not converted", so Tensor needs no optional.
  using Converted =
      std::conditional_t<std::same_as<Value, Tensor>, Tensor,
                         std::conditional_t<std::is_abstract_v<Value>, std::optional<char>, std::optional<Value>>>;

 public:
  template <class T>
    requires(std::convertible_to<T&&, First> && !std::same_as<std::remove_cvref_t<T>, Argument>)
  Argument(T&& value, Location where_ = {}) : where(where_) {
    if constexpr (std::is_convertible_v<std::remove_reference_t<T>*, std::remove_reference_t<First>*>) {
      address_ = std::addressof(value);
    } else {
      if constexpr (std::same_as<Converted, Tensor>) address_ = &(converted_ = Tensor(std::forward<T>(value)));
      else address_ = &converted_.emplace(std::forward<T>(value));
    }
  }
  Argument(const Argument&) = delete;

  First get() const { return static_cast<First>(*address_); }

  Location where;

 private:
  std::remove_reference_t<First>* address_;
  Converted converted_;
};

// The type of a first parameter: by reference as declared; a value parameter as const reference.
template <class A>
using FirstParameter = std::conditional_t<std::is_reference_v<A> && !std::same_as<std::remove_cvref_t<A>, Tensor>, A,
                                          const std::remove_cvref_t<A>&>;
template <class Forward>
struct FirstOf {
  using type = const Tensor&;
};
template <class R, class C, class A, class... B, bool e>
struct FirstOf<R (C::*)(A, B...) noexcept(e)> {
  using type = FirstParameter<A>;
};
template <class R, class C, class A, class... B, bool e>
struct FirstOf<R (C::*)(A, B...) const noexcept(e)> {
  using type = FirstParameter<A>;
};

/// The first parameter of a module: a tensor if `forward` is overloaded or a template. A layer with a last argument
/// that users write as a braced list declares its type as `Last` in a specialisation.
template <class M>
struct CallOf {
  using First = const Tensor&;
};
template <class M>
  requires requires { &M::forward; }
struct CallOf<M> {
  using First = typename FirstOf<decltype(&M::forward)>::type;
};

template <class M, class... More>
concept EndsInLast = (std::same_as<std::remove_cvref_t<More>, typename CallOf<M>::Last> || ...);

template <class M, class... More>
concept ForwardTakes = requires(M& module, typename CallOf<std::remove_const_t<M>>::First first) {
  module.forward(static_cast<decltype(first)>(first), std::declval<More>()...);
}
|| requires(M& module, typename CallOf<std::remove_const_t<M>>::First first, Location where) {
  module.forward(static_cast<decltype(first)>(first), std::declval<More>()..., where);
};

/// module.forward(arguments...), with the location of the call if forward takes one.
template <class M, class... Arguments>
auto run_forward(M& module, Location where, Arguments&&... arguments) {
  if constexpr (requires { module.forward(std::forward<Arguments>(arguments)..., where); }) {
    return module.forward(std::forward<Arguments>(arguments)..., where);
  } else {
    return module.forward(std::forward<Arguments>(arguments)...);
  }
}

template <class M>
constexpr OneTensorForward make_one_tensor_forward() {
  using Copy = std::remove_const_t<M>;
  OneTensorForward made = {[](Module& module, const Tensor& x, Location where) -> Tensor {
                             return run_forward(static_cast<M&>(module), where, x);
                           },
                           nullptr};
  if constexpr (std::is_copy_constructible_v<Copy>) {
    made.copy = [](const Module& module) -> Shared<Module> {
      return Shared<Copy>::make(static_cast<const Copy&>(module));
    };
  }
  return made;
}
template <class M>
inline constexpr OneTensorForward one_tensor_forward = make_one_tensor_forward<M>();

template <class M, class... Arguments>
struct Callable : std::false_type {};
template <class M, class First, class... More>
struct Callable<M, First, More...> : std::bool_constant<std::convertible_to<First, typename CallOf<M>::First> &&
                                                        (ForwardTakes<const M, More...> || ForwardTakes<M, More...>)> {
};
template <class M, class First, class... More>
  requires std::same_as<std::remove_cvref_t<First>, Argument<typename CallOf<M>::First>>
struct Callable<M, First, More...> : std::bool_constant<ForwardTakes<const M, More...> || ForwardTakes<M, More...>> {
};

}  // namespace detail

/// The input tensor of a module call, with the location of the call.
using Input = detail::Argument<const Tensor&>;

/// Base class of callable modules: derive `struct Net : nn::Layer<Net>` and write a public `forward` with any arguments
/// and any result. Call it by `operator()`, which runs the hooks and passes the call's location if the last parameter
/// of `forward` is a Location. Hooks receive the tensors in arguments and results, also those in vectors, arrays, maps,
/// pairs, tuples and optionals. For a struct, declare its tensors: `auto tensors() { return std::tie(mean, deviation);
/// }`.
template <class Self>
class Layer : public Module {  // NOLINT(bugprone-crtp-constructor-accessibility): `Net{}` must work
 public:
  Layer() : Module(TypeId::of<Self>()) {}                            // NOLINT(bugprone-crtp-constructor-accessibility)
  Layer(const Layer& other) : Module(other) { become_copy(other); }  // NOLINT(bugprone-crtp-constructor-accessibility)
  Layer& operator=(const Layer& other) {
    assign(other);
    return *this;
  }

  /// Whether a call with these arguments compiles.
  template <class... Arguments>
  static constexpr bool takes = detail::Callable<Self, Arguments...>::value;

  template <class M = Self, class... More>
    requires(detail::ForwardTakes<const M, More...> && !detail::EndsInLast<M, More...>)
  auto operator()(const detail::Argument<typename detail::CallOf<M>::First>& first, More&&... more) const {
    return call(static_cast<const M&>(*this), first, std::forward<More>(more)...);
  }
  template <class M = Self, class... More>
    requires(detail::ForwardTakes<M, More...> && !detail::ForwardTakes<const M, More...>)
  auto operator()(const detail::Argument<typename detail::CallOf<M>::First>& first, More&&... more) {
    return call(static_cast<M&>(*this), first, std::forward<More>(more)...);
  }
  // Separate overload, because the variadic ones cannot deduce a braced list.
  template <class M = Self>
  requires detail::ForwardTakes<const M, const typename detail::CallOf<M>::Last&> auto operator()(
      const detail::Argument<typename detail::CallOf<M>::First>& first,
      const typename detail::CallOf<M>::Last& last) const {
    return call(static_cast<const M&>(*this), first, last);
  }
  template <class M = Self>
  requires detail::ForwardTakes<const M, const Tensor&, const typename detail::CallOf<M>::Last&> auto operator()(
      const detail::Argument<typename detail::CallOf<M>::First>& first, const Tensor& second,
      const typename detail::CallOf<M>::Last& last) const {
    return call(static_cast<const M&>(*this), first, second, last);
  }
  template <class M = Self>
  requires detail::ForwardTakes<const M, const Tensor&, const Tensor&, const typename detail::CallOf<M>::Last&> auto
  operator()(const detail::Argument<typename detail::CallOf<M>::First>& first, const Tensor& second,
             const Tensor& third, const typename detail::CallOf<M>::Last& last) const {
    return call(static_cast<const M&>(*this), first, second, third, last);
  }
  // Overloads for invalid calls, so that the compiler prints one clear error.
  template <class M = Self, class... More>
    requires(detail::ForwardTakes<M, More...> && !detail::ForwardTakes<const M, More...>)
  Tensor operator()(const detail::Argument<typename detail::CallOf<M>::First>&, More&&...) const {
    static_assert(detail::unmet<M>,
                  "forward() is not const, and the module is: write `Tensor forward(const Tensor& x) const`");
    return {};
  }
  template <class M = Self, class... Arguments>
    requires(!detail::Callable<M, Arguments...>::value)
  Tensor operator()(Arguments&&...) const {
    static_assert(detail::unmet<Arguments...>, "forward() is missing, is not public, or takes other arguments");
    return {};
  }

  /// See nn::clone.
  Self clone() const { return nn::clone(static_cast<const Self&>(*this)); }

 private:
  template <class M, class First, class... More>
  static auto call(M& self, const detail::Argument<First>& first, More&&... more) {
    const auto forward = [where = first.where](M& module, auto&&... arguments) {
      return detail::run_forward(module, where, std::forward<decltype(arguments)>(arguments)...);
    };
    using Result = decltype(forward(self, first.get(), std::forward<More>(more)...));
    const detail::ForwardScope scope(self, first.where);
    if (const detail::ModuleHooks* hooks = self.Module::hooks(); WEFT_LIKELY(hooks == nullptr)) {
      return forward(self, first.get(), std::forward<More>(more)...);
    } else if constexpr (sizeof...(More) == 0 && std::same_as<First, const Tensor&> && std::same_as<Result, Tensor>) {
      return detail::call_with_hooks(const_cast<Self&>(self), *hooks, detail::one_tensor_forward<M>, first.get(),
                                     first.where);
    } else {
      return detail::call_with_hooks(self, *hooks, first.where, forward, first.get(), std::forward<More>(more)...);
    }
  }
};

/// Prints `module.text()`.
WEFT_API std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace weft::nn
