#include "free_list.hpp"

#include "slabs.hpp"

#include <pthread.h>

#include <cstdlib>
#include <mutex>
#include <new>

namespace weft::detail {

constinit thread_local FreeLists free_lists = {};

namespace {

constexpr uint32_t thread_limit = 256;
constexpr uint32_t batch = 64;

constexpr size_t class_bytes(int size_class) { return (size_class + 1) * block_granule; }

// Free blocks store the link themselves, so freeing needs no memory.
void push(void*& head, void* block) {
  *static_cast<void**>(block) = head;
  head = block;
}
void* pop(void*& head) {
  void* block = head;
  head = *static_cast<void**>(block);
  return block;
}

struct Depot {
  std::mutex mutex;
  void* heads[block_classes] = {};
  Slabs slabs[block_classes];
};

// Never destroyed: static tensors are destroyed after any static object of this file.
Depot& depot() {
  static Depot* instance = [] {
    // Otherwise the child of a fork() could inherit a mutex locked by a thread that it does not have.
    pthread_atfork([] { depot().mutex.lock(); }, [] { depot().mutex.unlock(); }, [] { depot().mutex.unlock(); });
    return new Depot;
  }();
  return *instance;
}

void give_to_depot(FreeLists& lists, int size_class, uint32_t count) {
  Depot& d = depot();
  std::lock_guard lock(d.mutex);
  while (count-- > 0 && lists.heads[size_class] != nullptr) {
    push(d.heads[size_class], pop(lists.heads[size_class]));
    --lists.counts[size_class];
  }
}

enum class Phase : uint8_t { unborn, alive, dead };
constinit thread_local Phase phase = Phase::unborn;

struct ExitHook {
  ~ExitHook() {
    phase = Phase::dead;
    free_lists.limit = 0;
    for (int c = 0; c < block_classes; ++c) give_to_depot(free_lists, c, free_lists.counts[c]);
  }
};

[[maybe_unused]] void start_thread() {
  static thread_local ExitHook hook;
  (void)&hook;
  phase = Phase::alive;
  free_lists.limit = thread_limit;
}

}  // namespace

void* allocate_block_slow(int size_class) {
#if defined(__SANITIZE_ADDRESS__)
  void* const block = std::aligned_alloc(block_granule, class_bytes(size_class));
  if (block == nullptr) throw std::bad_alloc();
  return block;
#else
  if (phase == Phase::unborn) start_thread();
  Depot& d = depot();
  std::lock_guard lock(d.mutex);
  void*& stock = d.heads[size_class];
  if (stock == nullptr) {
    void* const block = d.slabs[size_class].allocate(class_bytes(size_class));
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }
  void* result = pop(stock);
  FreeLists& lists = free_lists;
  for (uint32_t i = 0; i < batch && stock != nullptr && lists.counts[size_class] < lists.limit; ++i) {
    push(lists.heads[size_class], pop(stock));
    ++lists.counts[size_class];
  }
  return result;
#endif
}

void trim_free_lists() {
#if !defined(__SANITIZE_ADDRESS__)
  for (int c = 0; c < block_classes; ++c) {
    if (phase == Phase::alive) give_to_depot(free_lists, c, free_lists.counts[c]);
    Depot& d = depot();
    std::lock_guard lock(d.mutex);
    while (d.heads[c] != nullptr) d.slabs[c].free(pop(d.heads[c]));
    d.slabs[c].trim();
  }
#endif
}

void free_block_slow(void* block, int size_class) {
#if defined(__SANITIZE_ADDRESS__)
  std::free(block);
  (void)size_class;
#else
  if (phase == Phase::unborn) start_thread();
  if (phase == Phase::alive) {
    give_to_depot(free_lists, size_class, batch);
    push(free_lists.heads[size_class], block);
    ++free_lists.counts[size_class];
    return;
  }
  Depot& d = depot();
  std::lock_guard lock(d.mutex);
  push(d.heads[size_class], block);
#endif
}

}  // namespace weft::detail
