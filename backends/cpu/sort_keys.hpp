// Elements as unsigned numbers of the same order: -0 equals 0, and NaN, of either sign, is the greatest.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include <weft/backends/dispatch.hpp>

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
    const Key bits = std::bit_cast<Key>(x), magnitude = static_cast<Key>(bits & ~sign);
    if (magnitude > infinity) return static_cast<Key>(~Key(0));
    return static_cast<Key>(bits == magnitude ? bits | sign : sign - magnitude);
  }
}

/// Calls body(T{}) with the element type, for types that have an order.
template <class F>
void with_ordered(const char* kernel, const View& view, F&& body) {
  switch (view.layout.dtype) {
    case DType::boolean:
      return body(bool{});
    case DType::u8:
      return body(uint8_t{});
    case DType::i8:
      return body(int8_t{});
    case DType::u16:
      return body(uint16_t{});
    case DType::i16:
      return body(int16_t{});
    case DType::u32:
      return body(uint32_t{});
    case DType::i32:
      return body(int32_t{});
    case DType::u64:
      return body(uint64_t{});
    case DType::i64:
      return body(int64_t{});
    case DType::f16:
      return body(float16{});
    case DType::bf16:
      return body(bfloat16{});
    case DType::f32:
      return body(float{});
    case DType::f64:
      return body(double{});
    default:
      unsupported(kernel, view);
  }
}

}  // namespace weft::cpu
