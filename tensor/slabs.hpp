// Small blocks of one size, carved from slabs that go back to the system once nothing in them is in use.
#pragma once

#include <cstddef>

namespace weft::detail {

/// Callers lock. Blocks are multiples of 64 bytes, at most `most_bytes`.
class Slabs {
 public:
  static constexpr size_t most_bytes = 2048;

  /// Null where the system has no memory.
  void* allocate(size_t bytes);
  void free(void* block);
  /// Gives slabs without a block in use back to the system.
  void trim();

 private:
  struct Block {
    Block* next;
  };
  struct Slab;
  static Slab* slab_of(const void* block);
  bool add_slab();

  Block* free_ = nullptr;
  // What is left of the newest slab.
  char *next_ = nullptr, *end_ = nullptr;
};

/// Gives what the depot and the calling thread's free_lists hold back to the system, where whole slabs are free.
void trim_free_lists();

}  // namespace weft::detail
