// AnyModule: a module of any class with any forward. AnyValue: an argument or result of any type.
#pragma once

#include <any>
#include <memory>
#include <typeinfo>

#include <torch/nn/module.h>

namespace torch::nn {

namespace detail {
/// The name of a type, such as "float" or "at::Tensor".
std::string type_name(const std::type_info& type);
}  // namespace detail

class AnyValue {
 public:
  AnyValue() = default;
  template <class T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, AnyValue>)
  explicit AnyValue(T&& value) : value_(std::decay_t<T>(std::forward<T>(value))) {}

  template <class T>
  T* try_get() {
    return std::any_cast<T>(&value_);
  }
  /// Raises an error for another type than that of the value.
  template <class T>
  T get() {
    T* value = try_get<T>();
    TORCH_CHECK(value != nullptr, "Attempted to cast AnyValue to ", detail::type_name(typeid(T)),
                ", but its actual type is ", detail::type_name(type_info()));
    return *value;
  }
  const std::type_info& type_info() const noexcept { return value_.type(); }

 private:
  std::any value_;
};

namespace detail {

/// A module's forward without its types.
struct AnyForward {
  AnyValue (*call)(Module& module, std::vector<AnyValue>&& arguments);
  const std::type_info* type;
};

void check_argument_count(Module& module, std::vector<AnyValue>& arguments, size_t expected);
[[noreturn]] void raise_argument_type(size_t i, const std::type_info& expected, const std::type_info& received);

template <class T>
std::decay_t<T> argument(std::vector<AnyValue>& arguments, size_t i) {
  std::decay_t<T>* value = arguments[i].try_get<std::decay_t<T>>();
  if (value == nullptr) raise_argument_type(i, typeid(std::decay_t<T>), arguments[i].type_info());
  return std::move(*value);
}

template <class M, class R, class... A>
AnyValue call_forward(Module& module, std::vector<AnyValue>&& arguments) {
  static_assert(torch::detail::check_not_lvalue_references<A...>(),
                "Modules stored inside AnyModule must not take references. Use pointers instead.");
  static_assert(!std::is_void_v<R>, "AnyModule cannot store modules that return void (you can return a dummy value).");
  check_argument_count(module, arguments, sizeof...(A));
  const auto call = [&]<size_t... i>(std::index_sequence<i...>) {
    return AnyValue(static_cast<M&>(module).forward(argument<A>(arguments, i)...));
  };
  return call(std::index_sequence_for<A...>());
}
template <class M, class C, class R, class... A>
AnyForward forward_of(R (C::*)(A...)) {
  return {call_forward<M, R, A...>, &typeid(M)};
}
template <class M, class C, class R, class... A>
AnyForward forward_of(R (C::*)(A...) const) {
  return {call_forward<M, R, A...>, &typeid(M)};
}

}  // namespace detail

class AnyModule {
 public:
  AnyModule() = default;
  template <class M>
    requires std::is_base_of_v<Module, M>
  explicit AnyModule(std::shared_ptr<M> module)
      : module_(std::move(module)), forward_(detail::forward_of<M>(&M::forward)) {}
  template <class M>
  requires torch::detail::is_module<M>::value explicit AnyModule(M&& module)
      : AnyModule(std::make_shared<std::decay_t<M>>(std::forward<M>(module))) {}
  template <class M>
  explicit AnyModule(const ModuleHolder<M>& module) : AnyModule(module.ptr()) {}
  template <class M>
  AnyModule& operator=(std::shared_ptr<M> module) {
    return *this = AnyModule(std::move(module));
  }

  AnyModule clone(optional<Device> device = nullopt) const {
    AnyModule copy = *this;
    if (module_ != nullptr) copy.module_ = module_->clone(device);
    return copy;
  }
  template <class... A>
  AnyValue any_forward(A&&... arguments) {
    check("forward");
    std::vector<AnyValue> values;
    values.reserve(sizeof...(A));
    (values.push_back(value(std::forward<A>(arguments))), ...);
    return forward_.call(*module_, std::move(values));
  }
  /// Calls forward with exactly the types of its parameters, and returns its result as R.
  template <class R = Tensor, class... A>
  R forward(A&&... arguments) {
    return any_forward(std::forward<A>(arguments)...).template get<R>();
  }

  template <class T>
  requires torch::detail::is_module<T>::value T& get() {
    check("get");
    return cast<T>();
  }
  template <class T>
  requires torch::detail::is_module<T>::value const T& get() const {
    check("get");
    return cast<T>();
  }
  template <class T>
    requires torch::detail::is_module_holder<T>::value T get()
  const {
    check("get");
    return T(std::static_pointer_cast<typename T::ContainedType>(module_of<typename T::ContainedType>()));
  }
  std::shared_ptr<Module> ptr() const {
    check("ptr");
    return module_;
  }
  template <class T>
    requires torch::detail::is_module<T>::value std::shared_ptr<T> ptr()
  const {
    check("ptr");
    return std::static_pointer_cast<T>(module_of<T>());
  }
  const std::type_info& type_info() const {
    check("type_info");
    return *forward_.type;
  }
  bool is_empty() const noexcept { return module_ == nullptr; }

 private:
  void check(const char* method) const {
    TORCH_CHECK(module_ != nullptr, "Cannot call ", method, "() on an empty AnyModule");
  }
  static AnyValue value(AnyValue v) { return v; }
  template <class T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, AnyValue>)
  static AnyValue value(T&& v) {
    if constexpr (std::is_base_of_v<weft::Tensor, std::remove_cvref_t<T>>) return AnyValue(Tensor(std::forward<T>(v)));
    else return AnyValue(std::forward<T>(v));
  }
  template <class T>
  std::shared_ptr<Module> module_of() const {
    if (typeid(T) != *forward_.type && !std::is_same_v<T, Module>) {
      TORCH_CHECK(false, "Attempted to cast module of type ", detail::type_name(*forward_.type), " to type ",
                  detail::type_name(typeid(T)));
    }
    return module_;
  }
  template <class T>
  T& cast() const {
    return static_cast<T&>(*module_of<T>());
  }

  std::shared_ptr<Module> module_;
  detail::AnyForward forward_{};
};

/// A submodule with a name, for Sequential.
class NamedAnyModule {
 public:
  template <class M>
  NamedAnyModule(std::string name, std::shared_ptr<M> module)
      : name_(std::move(name)), module_(AnyModule(std::move(module))) {}
  template <class M>
    requires torch::detail::is_module<M>::value NamedAnyModule(std::string name, M&& module)
        : name_(std::move(name)), module_(AnyModule(std::forward<M>(module))) {}
    template <class M>
    NamedAnyModule(std::string name, const ModuleHolder<M>& module)
        : name_(std::move(name)), module_(AnyModule(module)) {}
    NamedAnyModule(std::string name, AnyModule module) : name_(std::move(name)), module_(std::move(module)) {}

    const std::string& name() const noexcept { return name_; }
    AnyModule& module() noexcept { return module_; }
    const AnyModule& module() const noexcept { return module_; }

   private:
    std::string name_;
    AnyModule module_;
};

}  // namespace torch::nn

/// In a module: FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(2)}, …) gives the arguments of forward from position 1 defaults.
#define FORWARD_HAS_DEFAULT_ARGS(...)                                                                           \
  bool _forward_has_default_args() override { return true; }                                                    \
  unsigned int _forward_num_required_args() override {                                                          \
    const std::pair<unsigned int, torch::nn::AnyValue> defaults[] = {__VA_ARGS__};                              \
    return defaults[0].first;                                                                                   \
  }                                                                                                             \
  std::vector<torch::nn::AnyValue> _forward_populate_default_args(std::vector<torch::nn::AnyValue>&& arguments) \
      override {                                                                                                \
    const std::pair<unsigned int, torch::nn::AnyValue> defaults[] = {__VA_ARGS__};                              \
    for (const auto& [position, value] : defaults) {                                                            \
      if (position >= arguments.size()) arguments.push_back(value);                                             \
    }                                                                                                           \
    return std::move(arguments);                                                                                \
  }
