#include "pinned_memory.hpp"

#include "backend.hpp"

namespace weft {

MemoryStats pinned_memory_stats(Device device, Location where) {
  check_device(device, "pinned_memory_stats", where);
  Backend* const backend = find_backend(device.type);
  return backend == nullptr ? MemoryStats() : backend->pinned_allocator().stats();
}

void empty_pinned_cache(Device device, Location where) {
  check_device(device, "empty_pinned_cache", where);
  if (Backend* const backend = find_backend(device.type)) backend->pinned_allocator().empty_cache();
}

}  // namespace weft
