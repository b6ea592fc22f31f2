// Counts the members of arrays, pairs, tuples and structs, and accesses them by index.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/index.hpp"

namespace weft::data::detail {

template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;
template <class T>
concept NumberList = is_vector<T> && Arithmetic<typename T::value_type> && !std::same_as<typename T::value_type, bool>;

/// Converts to any type, for counting members.
struct Anything {
  template <class T>
  operator T() const;
};
template <class T, size_t... i>
constexpr bool takes(std::index_sequence<i...>) {
  return requires { T{(static_cast<void>(i), Anything{})...}; };
}
template <class T, size_t max_count = 6>
constexpr size_t count_members() {
  if constexpr (takes<T>(std::make_index_sequence<max_count>())) return max_count;
  else if constexpr (max_count == 0) return 0;
  else return count_members<T, max_count - 1>();
}

/// A struct without constructors, which structured bindings can decompose.
template <class T>
concept PlainStruct = std::is_aggregate_v<T> && std::is_class_v<T> && !TupleLike<T> && !std::is_empty_v<T>;
template <class T>
concept HasFields = TupleLike<T> || PlainStruct<T>;

template <class T>
constexpr size_t fields_of() {
  if constexpr (TupleLike<T>) return std::tuple_size<T>::value;
  else return count_members<T>();
}
template <class T>
inline constexpr size_t field_count = fields_of<T>();

/// Returns references to the members of a struct.
template <class T>
auto tied(T& x) {
  constexpr size_t n = field_count<std::remove_const_t<T>>;
  static_assert(n >= 1 && n <= 6);
  if constexpr (n == 1) {
    auto& [a] = x;
    return std::tie(a);
  } else if constexpr (n == 2) {
    auto& [a, b] = x;
    return std::tie(a, b);
  } else if constexpr (n == 3) {
    auto& [a, b, c] = x;
    return std::tie(a, b, c);
  } else if constexpr (n == 4) {
    auto& [a, b, c, d] = x;
    return std::tie(a, b, c, d);
  } else if constexpr (n == 5) {
    auto& [a, b, c, d, e] = x;
    return std::tie(a, b, c, d, e);
  } else {
    auto& [a, b, c, d, e, f] = x;
    return std::tie(a, b, c, d, e, f);
  }
}

template <size_t i, class T>
decltype(auto) field(T& x) {
  if constexpr (TupleLike<std::remove_const_t<T>>) return (std::get<i>(x));
  else return std::get<i>(tied(x));
}

template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_array = false;
template <class T, size_t n>
inline constexpr bool is_array<std::array<T, n>> = true;

template <class T, class... F>
constexpr bool keeps_types() {
  if constexpr (!PlainStruct<T>) return false;
  else return std::is_same_v<decltype(tied(std::declval<T&>())), std::tuple<F&...>>;
}

/// Returns the type T with its members replaced by `fields`: an array for an array, the struct itself if the member
/// types are unchanged, otherwise a tuple.
template <class T, class First, class... F>
auto rebuilt(First first, F... fields) {
  if constexpr (is_array<T>) return std::array<First, 1 + sizeof...(F)>{std::move(first), std::move(fields)...};
  else if constexpr (is_pair<T>) return std::pair<First, F...>(std::move(first), std::move(fields)...);
  else if constexpr (keeps_types<T, First, F...>()) return T{std::move(first), std::move(fields)...};
  else return std::tuple<First, F...>(std::move(first), std::move(fields)...);
}

/// Maps and optional values.
template <class T>
concept MapLike = requires(T& x) {
  typename T::mapped_type;
  x.begin()->second;
};
template <class T>
concept MaybeValue = requires(T& x) {
  x.has_value();
  *x;
};

/// Replaces every tensor in x by `function` of it.
template <class T, class F>
void each_tensor(T& x, const F& function) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (x.defined()) x = function(std::as_const(x));
  } else if constexpr (is_vector<T> && !NumberList<T>) {
    if constexpr (!std::is_same_v<typename T::value_type, bool>) {
      for (auto& item : x) each_tensor(item, function);
    }
  } else if constexpr (MapLike<T>) {
    for (auto& [key, value] : x) each_tensor(value, function);
  } else if constexpr (MaybeValue<T>) {
    if (x.has_value()) each_tensor(*x, function);
  } else if constexpr (HasFields<T>) {
    [&]<size_t... i>(std::index_sequence<i...>) { (each_tensor(field<i>(x), function), ...); }
    (std::make_index_sequence<field_count<T>>());
  }
}

}  // namespace weft::data::detail
