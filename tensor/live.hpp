// Counts live tensor heads. Each thread counts in its own cell; `live_tensors` adds the cells up.
#pragma once

#include <cstdint>

#include "atomic.hpp"
#include "config.hpp"

namespace weft::detail {

/// Written by one thread, read by any. A tensor may be destroyed on a different thread than created it, so a count may
/// be negative.
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
