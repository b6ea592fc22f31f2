#pragma once

#include <optional>
#include <utility>

namespace c10 {
using std::bad_optional_access;
using std::in_place;
using std::in_place_t;
using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;
template <class T, class U>
constexpr T value_or_else(const optional<T>& value, U&& alternative) {
  return value ? *value : alternative();
}
}  // namespace c10
