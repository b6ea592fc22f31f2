// Elements that are only moved: of 1, 2, 4, 8 or 16 bytes.
#pragma once

#include <cstdint>

#include "../../tensor/complex.hpp"

namespace weft::cpu {

/// So many sizes there are; tables have an entry for the logarithm of each.
inline constexpr int item_sizes = 5;

/// Calls body(Word{}) with a type of an item's size; the 16-byte type has alignment 8.
template <class F>
void with_item(int64_t size, F&& body) {
  switch (size) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    case 8:
      return body(uint64_t{});
    default:
      return body(complex128{});
  }
}

}  // namespace weft::cpu
