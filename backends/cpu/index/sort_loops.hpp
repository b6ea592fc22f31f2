// Loops over the keys of one line, as vectors of contiguous unsigned numbers.
#pragma once

#include <cstdint>

#include "sort_keys.hpp"
#include "../lines.hpp"

namespace weft::cpu {

/// The lowest and the highest key of a line.
struct KeyRange {
  uint64_t lowest, highest;
};

/// For one dtype; keys are unsigned numbers of its size.
struct KeyLoops {
  /// The keys of n contiguous elements, inverted where `descending`.
  void (*read)(void* keys, const void* elements, int64_t n, bool descending);
  KeyRange (*range)(const void* keys, int64_t n);
  /// The lowest keys of `groups` groups of n keys: i belongs to group i % groups. There are at most n groups.
  void (*lowest)(void* least, int64_t groups, const void* keys, int64_t n);
  /// The positions of the keys up to `limit`, in order, and how many they are. Writes up to n positions.
  int64_t (*up_to)(uint32_t* positions, uint64_t limit, const void* keys, int64_t n);
  /// Of each of up to 32 keys, its place in their stable order; the room behind them up to 32 keys is read too.
  void (*ranks)(int32_t* ranks, const void* keys, int64_t n);
  /// How many of `count` sorted keys, fewer than 2^31, are below each of n keys (or not above it, with `right`).
  void (*places)(int64_t* places, const void* sorted, int64_t count, const void* keys, int64_t n, bool right);
};

/// The loops of the best SIMD target.
const KeyLoops& key_loops(DType dtype);

/// The size of n keys in bytes, rounded up to keep the following data aligned.
inline int64_t key_room(int64_t n, int64_t item) { return (n * item + 15) / 16 * 16; }

/// The keys of n elements `stride` bytes apart.
template <class T>
void read_keys(Unsigned<sizeof(T)>* keys, const char* line, int64_t stride, int64_t n, bool descending) {
  const T* elements = reinterpret_cast<const T*>(line);
  if (stride != static_cast<int64_t>(sizeof(T))) {
    T* const dense = reinterpret_cast<T*>(keys);
    for (int64_t i = 0; i < n; ++i) dense[i] = element_at<T>(line + i * stride);
    elements = dense;
  }
  key_loops(dtype_of<T>()).read(keys, elements, n, descending);
}

}  // namespace weft::cpu
