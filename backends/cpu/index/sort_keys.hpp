// Elements as unsigned numbers of the same order: -0 equals 0, and NaN, of either sign, is the greatest.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "../../dispatch.hpp"

namespace weft::cpu {

template <int size>
using Unsigned =
    std::conditional_t<size == 1, uint8_t,
                       std::conditional_t<size == 2, uint16_t, std::conditional_t<size == 4, uint32_t, uint64_t>>>;

template <class T>
inline Unsigned<sizeof(T)> sort_key(T x) {
  using Key = Unsigned<sizeof(T)>;
  constexpr Key sign = static_cast<Key>(Key(1) << (8 * sizeof(T) - 1));
  if constexpr (std::is_same_v<T, bool>) {
    return x;
  } else if constexpr (std::is_unsigned_v<T>) {
    return x;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<Key>(static_cast<Key>(x) ^ sign);
  } else {
    constexpr Key infinity = sizeof(T) == 8                ? static_cast<Key>(0x7ff0000000000000)
                             : sizeof(T) == 4              ? static_cast<Key>(0x7f800000)
                             : dtype_of<T>() == DType::f16 ? static_cast<Key>(0x7c00)
                                                           : static_cast<Key>(0x7f80);
    using Whole = std::make_signed_t<Key>;
    const Key bits = std::bit_cast<Key>(x), magnitude = static_cast<Key>(bits & ~sign);
    const Key negative = static_cast<Key>(static_cast<Whole>(bits) >> (8 * sizeof(T) - 1));
    const Key key = static_cast<Key>(sign + static_cast<Key>((magnitude ^ negative) - negative));
    return static_cast<Whole>(magnitude) > static_cast<Whole>(infinity) ? static_cast<Key>(~Key(0)) : key;
  }
}

/// Whether several elements have this key: both zeros, or all NaNs.
template <class T>
inline bool is_shared(Unsigned<sizeof(T)> key) {
  using Key = Unsigned<sizeof(T)>;
  if constexpr (std::is_integral_v<T>) return false;
  else return key == static_cast<Key>(Key(1) << (8 * sizeof(T) - 1)) || key == static_cast<Key>(~Key(0));
}

/// The one element that has this key.
template <class T>
inline T element_of(Unsigned<sizeof(T)> key) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(sort_key(static_cast<T>(key)));
  } else {
    using Key = Unsigned<sizeof(T)>;
    constexpr Key sign = static_cast<Key>(Key(1) << (8 * sizeof(T) - 1));
    return std::bit_cast<T>(key > sign ? static_cast<Key>(key - sign) : static_cast<Key>(Key(0) - key));
  }
}

}  // namespace weft::cpu
