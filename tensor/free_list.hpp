// Thread-local free lists for the small blocks that every op needs: tensor heads and graph nodes. Each list is bounded;
// surplus blocks move to a shared depot, because a tensor may be destroyed on a different thread than created it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config.hpp"

namespace weft::detail {

inline constexpr size_t block_granule = 64;
inline constexpr int block_classes = 16;  // up to 1024 bytes

struct FreeLists {
  void* heads[block_classes];
  uint32_t counts[block_classes];
  uint32_t limit;  // 0 until the thread's first slow call, and again after its exit hook ran
};
extern WEFT_API constinit thread_local FreeLists free_lists;

WEFT_API void* allocate_block_slow(int size_class);
WEFT_API void free_block_slow(void* block, int size_class);

constexpr int block_class(size_t size) { return static_cast<int>((size + block_granule - 1) / block_granule) - 1; }

/// Returns a 64-byte aligned block for `size` bytes, at most 1024.
inline void* allocate_block(size_t size) {
  const int c = block_class(size);
#if !defined(__SANITIZE_ADDRESS__)
  FreeLists& lists = free_lists;
  if (void* head = lists.heads[c]; WEFT_LIKELY(head != nullptr)) {
    lists.heads[c] = *static_cast<void**>(head);
    --lists.counts[c];
    return head;
  }
#endif
  return allocate_block_slow(c);
}

inline void free_block(void* block, size_t size) {
  const int c = block_class(size);
#if !defined(__SANITIZE_ADDRESS__)
  FreeLists& lists = free_lists;
  if (WEFT_LIKELY(lists.counts[c] < lists.limit)) {
    *static_cast<void**>(block) = lists.heads[c];
    lists.heads[c] = block;
    ++lists.counts[c];
    return;
  }
#endif
  free_block_slow(block, c);
}

}  // namespace weft::detail
