// A function that was handed over to be called later: a hook, a handler, a listener.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "shared.hpp"

namespace weft {

template <class Signature>
class Callback;

/// Holds anything that can be called with these arguments, or nothing; what it holds need not be copyable. Copies share
/// it, with its state; a function without any, such as a lambda that captures nothing, needs no memory. It stands in
/// public headers for std::function, whose header is an eighth of the compile time of <weft/weft.hpp>.
template <class R, class... Arguments>
class Callback<R(Arguments...)> {
 public:
  Callback() = default;
  Callback(std::nullptr_t) {}
  template <class F>
    requires(!std::same_as<F, Callback> && std::is_invocable_r_v<R, F&, Arguments...>)
  Callback(F function) {
    // An empty std::function and a null pointer are nothing to call.
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
  /// It must hold something.
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
