// Memory that is read once, in order: asked for in time, it comes faster than hardware foresees it, above all where
// several rows are used side by side.
#pragma once

#include <cstdint>

namespace weft::cpu {

/// Prefetch distance in bytes; nothing is fetched past the end.
inline constexpr int64_t read_ahead = 8192;

/// Fetches the cache lines that begin in [from, from + bytes).
[[gnu::always_inline]] inline void prefetch(const void* from, int64_t bytes) {
  constexpr int64_t line = 64;
  for (int64_t i = 0; i < bytes; i += line) __builtin_prefetch(static_cast<const char*>(from) + i);
}

}  // namespace weft::cpu
