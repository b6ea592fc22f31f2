// Combining a value with the existing one at its index.
#pragma once

#include <type_traits>

#include "../../dispatch.hpp"
#include "../item.hpp"

namespace weft::cpu {

template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

template <class T>
constexpr bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return x != x;
  else return false;
}

/// Integers wrap around; bool adds by "or" and multiplies by "and". In max and min NaN wins.
template <Scatter mode, class T>
inline T combined(T a, T b) {
  if constexpr (mode == Scatter::replace) {
    return b;
  } else if constexpr (std::is_same_v<T, bool>) {
    return mode == Scatter::sum || mode == Scatter::max ? (a | b) : (a & b);
  } else if constexpr (std::is_integral_v<T> && mode == Scatter::sum) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else if constexpr (std::is_integral_v<T> && mode == Scatter::prod) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else if constexpr (mode == Scatter::sum) {
    return a + b;
  } else if constexpr (mode == Scatter::prod) {
    return a * b;
  } else if constexpr (mode == Scatter::max) {
    return b > a || is_nan(b) ? b : a;
  } else {
    return b < a || is_nan(b) ? b : a;
  }
}

template <class T, bool wraps>
struct CombiningType {
  using type = T;
};
template <class T>
struct CombiningType<T, true> {
  using type = std::make_unsigned_t<T>;
};
/// T, or the unsigned type for signed integers: sums and products have the same bits.
template <class T, Scatter mode>
using Combining = typename CombiningType<T, std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                                (mode == Scatter::sum || mode == Scatter::prod)>::type;

/// combine_at, compiled for steps that are known and for others.
template <class T, Scatter mode, class Sum>
WEFT_FN void combine_each(char* to, int64_t to_step, const int64_t* offset, const char* from, int64_t from_step,
                          int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    Sum& place = *reinterpret_cast<Sum*>(to + i * to_step + offset[i]);
    const T value = element_at<T>(from + i * from_step);
    if constexpr (std::is_same_v<T, Sum>) place = combined<mode>(element_at<T>(&place), value);
    else if constexpr (is_half_type<T>) place = combined<mode>(place, static_cast<Sum>(to_float(value)));
    else place = combined<mode>(place, static_cast<Sum>(value));
  }
}
/// Combines n elements of a line with the elements at i * to_step + offset[i], in bytes.
template <class T, Scatter mode, class Sum = T>
void combine_at(char* to, int64_t to_step, const int64_t* offset, const char* from, int64_t from_step, int64_t n) {
  constexpr int64_t item = sizeof(T);
  if (to_step == 0 && from_step == item) combine_each<T, mode, Sum>(to, 0, offset, from, item, n);
  else combine_each<T, mode, Sum>(to, to_step, offset, from, from_step, n);
}

}  // namespace weft::cpu
