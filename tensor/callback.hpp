// A stored function: a hook, a handler or a listener.
//
// `std::function` and `std::shared_ptr` are avoided because their headers take a quarter of the compile time of
// <weft/weft.hpp>. Captures need not be copyable, and copies share state, so a hook keeps one state in all copies of
// a list.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "shared.hpp"

namespace weft {

template <class Signature>
class Callback;

/// Holds a callable with this signature, or nothing. The callable need not be copyable: copies of the Callback share it
/// and its state. A stateless callable, such as a lambda without captures, needs no heap memory. Public headers use it
/// because <functional> takes an eighth of the compile time of <weft/weft.hpp>.
template <class R, class... Arguments>
class Callback<R(Arguments...)> {
 public:
  Callback() = default;
  Callback(std::nullptr_t) {}
  template <class F>
    requires(!std::same_as<F, Callback> && std::is_invocable_r_v<R, F&, Arguments...>)
  Callback(F function) {
    // An empty std::function or a null pointer makes an empty Callback.
    if constexpr (std::is_pointer_v<F> || requires { function.operator bool(); }) {
      if (!static_cast<bool>(function)) return;
    }
    if constexpr (stateless<F>) {
      call_ = [](void*, Arguments... arguments) -> R {
        F made;
        return call<F>(made, std::forward<Arguments>(arguments)...);
      };
    } else {
      held_ = Shared<F>::make(std::move(function));
      call_ = [](void* held, Arguments... arguments) -> R {
        return call<F>(*static_cast<F*>(held), std::forward<Arguments>(arguments)...);
      };
    }
  }

  explicit operator bool() const { return call_ != nullptr; }
  /// The Callback must not be empty.
  R operator()(Arguments... arguments) const { return call_(held_.get(), std::forward<Arguments>(arguments)...); }

 private:
  template <class F>
  static constexpr bool stateless =
      std::is_empty_v<F>&& std::is_trivially_default_constructible_v<F>&& std::is_trivially_destructible_v<F>;
  template <class F>
  static R call(F& function, Arguments... arguments) {
    if constexpr (std::is_void_v<R>) function(std::forward<Arguments>(arguments)...);
    else return function(std::forward<Arguments>(arguments)...);
  }

  Shared<void> held_;
  R (*call_)(void*, Arguments...) = nullptr;
};

}  // namespace weft
