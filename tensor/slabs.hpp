// Small blocks of one size, carved from slabs that are returned to the system when none of their blocks is in use.
//
// Slabs serve tensor heads, graph nodes and data of up to 2 KiB. malloc needs up to 80 bytes more for each aligned
// block and never returns a heap with a used block at its end.
#pragma once

#include <cstddef>

namespace weft::detail {

/// Not thread-safe: callers hold a lock. Block sizes are multiples of 64 bytes, at most `most_bytes`.
class Slabs {
 public:
  static constexpr size_t most_bytes = 2048;

  /// Returns null if the system is out of memory.
  void* allocate(size_t bytes);
  void free(void* block);
  /// Returns slabs without used blocks to the system.
  void trim();

 private:
  struct Block {
    Block* next;
  };
  struct Slab;
  static Slab* slab_of(const void* block);
  bool add_slab();

  Block* free_ = nullptr;
  // The rest of the newest slab that is not carved yet.
  char *next_ = nullptr, *end_ = nullptr;
};

/// Returns slabs to the system if all their blocks are free, in the depot or the calling thread's free_lists.
void trim_free_lists();

}  // namespace weft::detail
