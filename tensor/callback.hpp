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
/// it, with its state. It stands in public headers for std::function, whose header is an eighth of the compile time of
/// <weft/weft.hpp>.
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
    held_ = Shared<F>::make(std::move(function));
    call_ = [](void* held, Arguments... arguments) -> R {
      if constexpr (std::is_void_v<R>) (*static_cast<F*>(held))(std::forward<Arguments>(arguments)...);
      else return (*static_cast<F*>(held))(std::forward<Arguments>(arguments)...);
    };
  }

  explicit operator bool() const { return call_ != nullptr; }
  /// It must hold something.
  R operator()(Arguments... arguments) const { return call_(held_.get(), std::forward<Arguments>(arguments)...); }

 private:
  Shared<void> held_;
  R (*call_)(void*, Arguments...) = nullptr;
};

}  // namespace weft
