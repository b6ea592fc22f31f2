// Helpers for parameter packs.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace torch {

template <bool... values>
using all_of = std::bool_constant<(... && values)>;
template <bool... values>
struct any_of : std::bool_constant<(... || values)> {};
template <bool condition, class T = void>
using enable_if_t = std::enable_if_t<condition, T>;
template <bool condition, class T = void>
using disable_if_t = std::enable_if_t<!condition, T>;

/// Calls the function with each argument.
template <class F, class... A>
void apply(F function, A&&... arguments) {
  (function(std::forward<A>(arguments)), ...);
}

}  // namespace torch
