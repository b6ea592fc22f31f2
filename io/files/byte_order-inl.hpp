// Numbers of the other byte order. Not public.
#pragma once

#include <algorithm>
#include <cstddef>

namespace weft::io {

/// Turns the bytes of each number, `width` of them, around.
inline void swap_bytes(std::byte* data, size_t bytes, size_t width) {
  for (size_t i = 0; i < bytes; i += width) std::reverse(data + i, data + i + width);
}

}  // namespace weft::io
