#include "live.hpp"

#include <new>

#include "impl.hpp"

namespace weft::detail {

constinit thread_local LiveCell* live_cell = nullptr;

namespace {

// Counts of threads after their exit hook ran, or without memory for a cell.
constinit Atomic<int64_t> late{0};
// Cells are never freed, only reused: a reader needs no lock, and the child of a fork() sees a consistent list.
constinit Atomic<LiveCell*> cells{nullptr};
constinit thread_local bool over = false;

struct ExitHook {
  ~ExitHook() {
    over = true;
    live_cell->taken.store(false, MemoryOrder::release);
    live_cell = nullptr;
  }
};

LiveCell* take_cell() {
  for (LiveCell* cell = cells.load(MemoryOrder::acquire); cell != nullptr; cell = cell->next) {
    if (!cell->taken.load(MemoryOrder::relaxed) && !cell->taken.exchange(true, MemoryOrder::acquire)) {
      return cell;
    }
  }
  auto* fresh = new (std::nothrow) LiveCell;
  if (fresh == nullptr) return nullptr;
  fresh->next = cells.load(MemoryOrder::relaxed);
  while (!cells.compare_exchange_weak(fresh->next, fresh, MemoryOrder::release)) {
  }
  return fresh;
}

}  // namespace

void count_live_slow(int64_t change) {
  if (!over && (live_cell = take_cell()) != nullptr) {
    static thread_local ExitHook hook;
    (void)&hook;
    return count_live(change);
  }
  late.fetch_add(change, MemoryOrder::relaxed);
}

int64_t live_tensors() {
  int64_t sum = late.load(MemoryOrder::relaxed);
  for (LiveCell* cell = cells.load(MemoryOrder::acquire); cell != nullptr; cell = cell->next) {
    sum += cell->count.load(MemoryOrder::relaxed);
  }
  return sum;
}

}  // namespace weft::detail
