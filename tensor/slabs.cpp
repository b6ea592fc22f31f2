#include "slabs.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace weft::detail {

namespace {

constexpr size_t slab_bytes = size_t{64} << 10;

/// Maps a slab aligned to its size.
void* map_slab() {
  const size_t bytes = 2 * slab_bytes;
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  char* const from = static_cast<char*>(base);
  const size_t before = (slab_bytes - reinterpret_cast<uintptr_t>(base) % slab_bytes) % slab_bytes;
  if (before != 0) munmap(from, before);
  munmap(from + before + slab_bytes, slab_bytes - before);
  return from + before;
}

}  // namespace

/// The header of a slab; its blocks follow.
struct alignas(64) Slabs::Slab {
  /// Number of blocks carved from it, and in `trim` the number of free ones.
  uint32_t carved = 0, free = 0;
};

Slabs::Slab* Slabs::slab_of(const void* block) {
  return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(block) / slab_bytes * slab_bytes);
}

bool Slabs::add_slab() {
  void* const memory = map_slab();
  if (memory == nullptr) return false;
  new (memory) Slab;
  next_ = static_cast<char*>(memory) + sizeof(Slab);
  end_ = static_cast<char*>(memory) + slab_bytes;
  return true;
}

void* Slabs::allocate(size_t bytes) {
  if (free_ != nullptr) {
    Block* const block = free_;
    free_ = block->next;
    return block;
  }
  if (static_cast<size_t>(end_ - next_) < bytes && !add_slab()) return nullptr;
  void* const block = next_;
  next_ += bytes;
  ++slab_of(block)->carved;
  return block;
}

void Slabs::free(void* block) { free_ = new (block) Block{free_}; }

void Slabs::trim() {
  for (const Block* block = free_; block != nullptr; block = block->next) ++slab_of(block)->free;
  const auto is_unused = [](const Slab* slab) { return slab->free == slab->carved; };
  Block *kept = nullptr, *unused = nullptr;
  for (Block* block = free_; block != nullptr;) {
    Block* const next = block->next;
    Block*& list = is_unused(slab_of(block)) ? unused : kept;
    block->next = list;
    list = block;
    block = next;
  }
  free_ = kept;
  for (const Block* block = kept; block != nullptr; block = block->next) slab_of(block)->free = 0;
  while (unused != nullptr) {
    Slab* const slab = slab_of(unused);
    unused = unused->next;
    if (--slab->free != 0) continue;  // decided at the slab's last block in the list
    if (next_ != nullptr && slab_of(end_ - 1) == slab) next_ = end_ = nullptr;
    munmap(slab, slab_bytes);
  }
}

}  // namespace weft::detail
