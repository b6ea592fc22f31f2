// An op that has a type of its own in mixed precision says so in its first line:
//
//   WEFT_IN_LOWER(matmul, a, b, where);
//
// In an autocast's scope it returns the op's result outside of every autocast, for operands that were converted. Not
// public.
//
// Inside an op all steps compute in one dtype, and backward runs outside of every scope. The op's record has the type
// among its facts.
#pragma once

#include <concepts>

#include "../../autograd/autocast.hpp"
#include "../../tensor/index.hpp"

namespace weft {

inline bool autocasting() { return detail::autocast_mode.on; }

/// An argument with each tensor in it converted; other arguments are forwarded.
template <Tensor (*convert)(const Tensor&), class T>
decltype(auto) converted(const T& argument) {
  if constexpr (std::derived_from<T, Tensor>) return convert(argument);
  else if constexpr (std::same_as<T, Operand>) return convert(argument.tensor());
  else return (argument);
}

template <Tensor (*convert)(const Tensor&), class Op, class... Arguments>
auto call_converted(const Op& op, const Arguments&... arguments) {
  const auto outside = [&](const auto&... values) {
    const detail::AutocastModeGuard off({});
    return op(values...);
  };
  return outside(converted<convert>(arguments)...);
}

#define WEFT_CALL_CONVERTED(convert, op, ...)                                                                 \
  do {                                                                                                        \
    if (WEFT_UNLIKELY(autocasting())) {                                                                       \
      return call_converted<convert>([](const auto&... values) { return weft::op(values...); }, __VA_ARGS__); \
    }                                                                                                         \
  } while (false)

/// In the 16-bit type.
#define WEFT_IN_LOWER(op, ...) WEFT_CALL_CONVERTED(detail::lowered, op, __VA_ARGS__)
/// In f32, where an operand is narrower.
#define WEFT_IN_FULL(op, ...) WEFT_CALL_CONVERTED(detail::raised, op, __VA_ARGS__)

}  // namespace weft
