// The count of live tensor heads. Each thread counts in a cell of its own; `live_tensors` adds the cells up.
#pragma once

#include <cstdint>

#include "atomic.hpp"
#include "config.hpp"

namespace weft::detail {

/// Written by one thread, read by any. A tensor may die on another thread than made it, so a cell may be negative.
struct alignas(64) LiveCell {
  Atomic<int64_t> count{0};
  Atomic<bool> taken{true};
  LiveCell* next = nullptr;
};
extern constinit thread_local LiveCell* live_cell;

void count_live_slow(int64_t change);

inline void count_live(int64_t change) {
  LiveCell* cell = live_cell;
  if (WEFT_UNLIKELY(cell == nullptr)) return count_live_slow(change);
  cell->count.store(cell->count.load(MemoryOrder::relaxed) + change, MemoryOrder::relaxed);
}

}  // namespace weft::detail
