// Byte order conversion. Not public.
#pragma once

#include <algorithm>
#include <cstddef>

namespace weft::io {

/// Reverses the bytes of each number of `width` bytes.
inline void swap_bytes(std::byte* data, size_t bytes, size_t width) {
  for (size_t i = 0; i < bytes; i += width) std::reverse(data + i, data + i + width);
}

}  // namespace weft::io
