// Type traits of modules.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <torch/csrc/utils/variadic.h>

namespace torch {

namespace nn {
class Module;
}

namespace detail {

struct ModuleHolderIndicator {};
template <class T>
using is_module_holder = std::is_base_of<ModuleHolderIndicator, std::decay_t<T>>;
template <class T>
using is_module = std::is_base_of<nn::Module, std::decay_t<T>>;
template <class T, class R = void>
using enable_if_module_t = std::enable_if_t<is_module<T>::value, R>;
template <class T, class R = void>
using disable_if_module_t = std::enable_if_t<!is_module<T>::value, R>;

template <class T, class C>
struct is_module_holder_of {
  static constexpr bool value = [] {
    if constexpr (is_module_holder<T>::value) return std::is_same_v<typename std::decay_t<T>::ContainedType, C>;
    else return false;
  }();
};

template <class M>
concept has_forward = requires {
  &M::forward;
};

/// The result of m.forward(arguments…); void for a module without it.
template <class M, class... A>
struct return_type_of_forward {
  using type = void;
};
template <class M, class... A>
  requires requires(M& m, A&&... a) { m.forward(std::forward<A>(a)...); }
struct return_type_of_forward<M, A...> {
  using type = decltype(std::declval<M&>().forward(std::declval<A>()...));
};
template <class M, class... A>
using return_type_of_forward_t = typename return_type_of_forward<M, A...>::type;

template <class... T>
constexpr bool check_not_lvalue_references() {
  return (... && (!std::is_lvalue_reference_v<T> || std::is_const_v<std::remove_reference_t<T>>));
}

}  // namespace detail
}  // namespace torch
