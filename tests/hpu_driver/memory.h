// Device, host and shared allocations, with the checks that hardware does not make.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "driver.h"

namespace weft::testing::ze {

struct Allocation {
  void* base = nullptr;
  size_t size = 0;         // as requested
  size_t mapped_size = 0;  // rounded up to pages
  uint64_t id = 0;         // never reused
  ze_memory_type_t type = ZE_MEMORY_TYPE_UNKNOWN;
  Device* device = nullptr;  // null for host memory
  int fd = -1;               // shareable memory behind device allocations
  bool imported = false;

  bool contains(const void* pointer, size_t bytes) const;
};

// An allocation that a queued command touches; it must still be alive when the command runs.
struct MemoryUse {
  const void* base;
  uint64_t id;
};

// The allocation around `pointer`, if any.
std::optional<Allocation> find_allocation(const void* pointer);

// False, with a report, when a command's memory was freed before the command ran.
bool memory_alive(const std::vector<MemoryUse>& uses, const char* command);

// Bytes of `device` in use.
uint64_t used_memory(const Device* device);

// Checks a range that a copy touches. Unknown pointers pass when `host_allowed` (pageable memory).
ze_result_t check_range(const void* pointer, size_t bytes, bool host_allowed, const char* what,
                        std::vector<MemoryUse>* uses);

// Whether a command on `device` may touch the allocation.
bool accessible(const Allocation& allocation, const Device* device);

}  // namespace weft::testing::ze
