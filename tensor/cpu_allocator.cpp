// The CPU's caching allocator. There are four size classes per power of two. Freed blocks of up to 1 MiB are cached in
// bins of the thread that freed them; larger ones, and those that exceed a bin's limit, in shared bins. The smallest
// are carved from slabs. `allocated` counts requested bytes, `reserved` size classes.
#include "allocator.hpp"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "atomic.hpp"
#include "slabs.hpp"
#include "storage.hpp"

namespace weft {
namespace {

constexpr size_t granule = 64;
constexpr size_t huge_page = size_t{2} << 20;
constexpr size_t local_block_limit = size_t{1} << 20;
constexpr size_t local_bytes_limit = size_t{16} << 20;
constexpr size_t class_limit = size_t{1} << 46;
constexpr size_t unlimited = std::numeric_limits<size_t>::max();
/// With cached blocks, `reserved` may be at most 1.5 times the peak plus this.
constexpr size_t cache_slack = size_t{64} << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr bool caching = false;
#else
constexpr bool caching = true;
#endif

/// Size classes: 64, 128, 192, 256, then 5/4, 6/4, 7/4 and 8/4 of each power of two.
constexpr int class_of(size_t bytes) {
  if (bytes <= 4 * granule) return static_cast<int>((bytes - 1) / granule);
  const int power = std::bit_width(bytes - 1) - 1;
  return (power - 7) * 4 + static_cast<int>((bytes - 1) >> (power - 2)) - 4;
}
constexpr size_t class_bytes(int c) {
  if (c < 4) return (c + 1) * granule;
  return static_cast<size_t>(c % 4 + 5) << (c / 4 + 5);
}
constexpr int local_classes = class_of(local_block_limit) + 1;
constexpr int shared_classes = class_of(class_limit) + 1;
constexpr int slab_classes = caching ? class_of(detail::Slabs::most_bytes) + 1 : 0;
static_assert(class_of(256) == 3 && class_of(257) == 4 && class_bytes(4) == 320 && class_of(320) == 4);
static_assert(class_of(321) == 5 && class_of(512) == 7 && class_bytes(7) == 512 && class_of(513) == 8);
static_assert(class_bytes(class_of(local_block_limit)) == local_block_limit &&
              class_bytes(shared_classes - 1) == class_limit);

struct Block {
  Block* next;
};

void push(Block*& head, void* data) {
  Block* block = static_cast<Block*>(data);
  block->next = head;
  head = block;
}
void* pop(Block*& head) {
  Block* block = head;
  head = block->next;
  return block;
}

void* map_huge(size_t bytes) {
  char* base =
      static_cast<char*>(mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED) return nullptr;
  char* data = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(base) + huge_page - 1) & ~(huge_page - 1));
  if (data != base) munmap(base, static_cast<size_t>(data - base));
  munmap(data + bytes, huge_page - static_cast<size_t>(data - base));
  madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void* system_allocate(size_t bytes) {
  if (caching && bytes >= huge_page) return map_huge(bytes);
  void* data = nullptr;
  return posix_memalign(&data, granule, bytes) == 0 ? data : nullptr;
}
void system_free(void* data, size_t bytes) {
  if (caching && bytes >= huge_page) munmap(data, bytes);
  else std::free(data);
}

/// Blocks that one thread freed. Only that thread uses the bins; others read the counter.
struct LocalBins {
  Block* heads[local_classes];
  size_t bytes;
  size_t limit;  // 0 until the thread's first slow call, and again after its exit hook ran
  uint32_t epoch;
  Atomic<size_t> allocations;
  size_t bytes_so_far;
  LocalBins* next;
};
constinit thread_local LocalBins local = {};
enum class Phase : uint8_t { unborn, alive, dead };
constinit thread_local Phase phase = Phase::unborn;

class CpuAllocator final : public Allocator {
 public:
  constexpr CpuAllocator() = default;
  void* allocate(size_t bytes) override;
  void free(void* data, size_t bytes) override;
  MemoryStats stats() override;
  void reset_peak() override;
  void empty_cache() override;
  void set_limit(size_t bytes) override;
  void thread_ends();
  void child_begins();

 private:
  bool count_allocation(size_t bytes);
  bool over_threshold(size_t bytes, size_t now);
  void update_threshold() { threshold_.store(std::min(peak_, limit_), MemoryOrder::relaxed); }
  void* allocate_slow(int size_class);
  void* allocate_large(size_t bytes);
  void* take_from_system(size_t bytes);
  void* new_block(size_t bytes);
  void drop_block(void* data, size_t bytes);
  void trim();
  void free_slow(void* data, size_t bytes);
  void start_thread();
  void note_new_epoch();
  void flush_local(LocalBins& bins);
  void evict(size_t down_to);

  // Read or written by every call.
  alignas(64) Atomic<size_t> allocated_{0};
  /// The smaller of peak and limit; allocations beyond it take the slow path.
  alignas(64) Atomic<size_t> threshold_{0};
  Atomic<uint32_t> epoch_{0};
  // Guarded by the mutex.
  alignas(64) std::mutex mutex_;
  size_t peak_ = 0, limit_ = unlimited;
  size_t reserved_ = 0, peak_reserved_ = 0;
  size_t past_allocations_ = 0;
  LocalBins* threads_ = nullptr;
  Block* shared_[shared_classes] = {};
  detail::Slabs slabs_[std::max(slab_classes, 1)];
};

/// Never destroyed: static tensors are destroyed after any static object of this file.
union Immortal {
  constexpr Immortal() : allocator() {}
  ~Immortal() {}
  CpuAllocator allocator;
};
constinit Immortal immortal;

struct ExitHook {
  ~ExitHook() { immortal.allocator.thread_ends(); }
};

bool CpuAllocator::count_allocation(size_t bytes) {
  size_t now;
  if (WEFT_SINGLE_THREADED) {
    now = allocated_.load(MemoryOrder::relaxed) + bytes;
    allocated_.store(now, MemoryOrder::relaxed);
  } else {
    now = allocated_.fetch_add(bytes, MemoryOrder::relaxed) + bytes;
  }
  if (WEFT_UNLIKELY(now > threshold_.load(MemoryOrder::relaxed)) && !over_threshold(bytes, now)) return false;
  local.allocations.store(local.allocations.load(MemoryOrder::relaxed) + 1, MemoryOrder::relaxed);
  local.bytes_so_far += bytes;
  return true;
}

bool CpuAllocator::over_threshold(size_t bytes, size_t now) {
  std::lock_guard lock(mutex_);
  if (now > limit_) {
    allocated_.fetch_sub(bytes, MemoryOrder::relaxed);
    return false;
  }
  peak_ = std::max(peak_, now);
  update_threshold();
  return true;
}

void* CpuAllocator::allocate(size_t bytes) {
  if (WEFT_UNLIKELY(!caching || bytes > local_block_limit)) return allocate_large(bytes);
  if (!count_allocation(bytes)) return nullptr;
  LocalBins& bins = local;
  const int c = class_of(bytes);
  if (WEFT_LIKELY(bins.heads[c] != nullptr && bins.epoch == epoch_.load(MemoryOrder::relaxed))) {
    bins.bytes -= class_bytes(c);
    return pop(bins.heads[c]);
  }
  void* data = allocate_slow(c);
  if (WEFT_UNLIKELY(data == nullptr)) allocated_.fetch_sub(bytes, MemoryOrder::relaxed);
  return data;
}

void CpuAllocator::free(void* data, size_t bytes) {
  if (WEFT_SINGLE_THREADED) {
    allocated_.store(allocated_.load(MemoryOrder::relaxed) - bytes, MemoryOrder::relaxed);
  } else {
    allocated_.fetch_sub(bytes, MemoryOrder::relaxed);
  }
  if (WEFT_LIKELY(caching && bytes <= local_block_limit)) {
    LocalBins& bins = local;
    const int c = class_of(bytes);
    const size_t after = bins.bytes + class_bytes(c);
    if (WEFT_LIKELY(after <= bins.limit && bins.epoch == epoch_.load(MemoryOrder::relaxed))) {
      bins.bytes = after;
      push(bins.heads[c], data);
      return;
    }
  }
  free_slow(data, bytes);
}

void* CpuAllocator::allocate_slow(int c) {
  if (phase == Phase::unborn) start_thread();
  std::lock_guard lock(mutex_);
  if (phase == Phase::dead) ++past_allocations_;
  if (local.epoch != epoch_.load(MemoryOrder::relaxed)) note_new_epoch();
  return shared_[c] != nullptr ? pop(shared_[c]) : take_from_system(class_bytes(c));
}

void* CpuAllocator::allocate_large(size_t bytes) {
  if (bytes > class_limit) return nullptr;
  if (phase == Phase::unborn) start_thread();
  std::lock_guard lock(mutex_);
  if (bytes > limit_ || allocated_.load(MemoryOrder::relaxed) > limit_ - bytes) return nullptr;
  if (local.epoch != epoch_.load(MemoryOrder::relaxed)) note_new_epoch();
  const int c = class_of(bytes);
  void* data = nullptr;
  if (!caching) data = take_from_system(bytes);
  else if (shared_[c] != nullptr) data = pop(shared_[c]);
  else data = take_from_system(class_bytes(c));
  if (data == nullptr) return nullptr;
  ++past_allocations_;
  local.bytes_so_far += bytes;
  peak_ = std::max(peak_, allocated_.fetch_add(bytes, MemoryOrder::relaxed) + bytes);
  update_threshold();
  return data;
}

void* CpuAllocator::new_block(size_t bytes) {
  const int c = class_of(bytes);
  return c < slab_classes ? slabs_[c].allocate(bytes) : system_allocate(bytes);
}
/// Blocks of slabs are returned to the system by `trim`.
void CpuAllocator::drop_block(void* data, size_t bytes) {
  const int c = class_of(bytes);
  if (c < slab_classes) slabs_[c].free(data);
  else system_free(data, bytes);
  reserved_ -= bytes;
}
void CpuAllocator::trim() {
  for (int c = 0; c < slab_classes; ++c) slabs_[c].trim();
}

void* CpuAllocator::take_from_system(size_t bytes) {
  const size_t most = std::min(peak_ + peak_ / 2 + cache_slack, limit_);
  if (reserved_ + bytes > most) evict(most > bytes ? most - bytes : 0);
  void* data = new_block(bytes);
  if (data == nullptr) {
    flush_local(local);
    evict(0);
    trim();
    data = new_block(bytes);
    if (data == nullptr) return nullptr;
  }
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return data;
}

void CpuAllocator::free_slow(void* data, size_t bytes) {
  if (phase == Phase::unborn) start_thread();
  std::lock_guard lock(mutex_);
  if (caching) {
    if (local.epoch != epoch_.load(MemoryOrder::relaxed)) note_new_epoch();
    push(shared_[class_of(bytes)], data);
  } else {
    drop_block(data, bytes);
  }
}

void CpuAllocator::start_thread() {
  static thread_local ExitHook hook;
  (void)&hook;
  phase = Phase::alive;
  // Otherwise the child of a fork() could inherit a mutex locked by a thread that it does not have.
  static const int hooked =
      pthread_atfork([] { immortal.allocator.mutex_.lock(); }, [] { immortal.allocator.mutex_.unlock(); },
                     [] { immortal.allocator.child_begins(); });
  (void)hooked;
  std::lock_guard lock(mutex_);
  local.limit = local_bytes_limit;
  local.epoch = epoch_.load(MemoryOrder::relaxed);
  local.next = threads_;
  threads_ = &local;
}

void CpuAllocator::thread_ends() {
  phase = Phase::dead;
  std::lock_guard lock(mutex_);
  flush_local(local);
  local.limit = 0;
  past_allocations_ += local.allocations.load(MemoryOrder::relaxed);
  local.allocations.store(0, MemoryOrder::relaxed);
  LocalBins** place = &threads_;
  while (*place != &local) place = &(*place)->next;
  *place = local.next;
}

/// Drops the other threads' bins, which do not exist in the child: new threads may get the same memory.
void CpuAllocator::child_begins() {
  for (const LocalBins* bins = threads_; bins != nullptr; bins = bins->next) {
    if (bins != &local) past_allocations_ += bins->allocations.load(MemoryOrder::relaxed);
  }
  threads_ = phase == Phase::alive ? &local : nullptr;
  local.next = nullptr;
  mutex_.unlock();
}

/// Empties the bins, because a thread emptied the cache since this thread's last slow call.
void CpuAllocator::note_new_epoch() {
  local.epoch = epoch_.load(MemoryOrder::relaxed);
  for (int c = 0; c < local_classes; ++c) {
    while (local.heads[c] != nullptr) drop_block(pop(local.heads[c]), class_bytes(c));
  }
  local.bytes = 0;
}

void CpuAllocator::flush_local(LocalBins& bins) {
  for (int c = 0; c < local_classes; ++c) {
    while (bins.heads[c] != nullptr) push(shared_[c], pop(bins.heads[c]));
  }
  bins.bytes = 0;
}

void CpuAllocator::evict(size_t down_to) {
  for (int c = shared_classes - 1; c >= 0 && reserved_ > down_to; --c) {
    while (shared_[c] != nullptr && reserved_ > down_to) drop_block(pop(shared_[c]), class_bytes(c));
  }
}

MemoryStats CpuAllocator::stats() {
  std::lock_guard lock(mutex_);
  MemoryStats s;
  s.allocated = allocated_.load(MemoryOrder::relaxed);
  s.reserved = reserved_;
  s.peak_allocated = peak_;
  s.peak_reserved = peak_reserved_;
  s.allocations = past_allocations_;
  for (const LocalBins* bins = threads_; bins != nullptr; bins = bins->next) {
    s.allocations += bins->allocations.load(MemoryOrder::relaxed);
  }
  s.limit = limit_ == unlimited ? 0 : limit_;
  struct sysinfo machine;
  if (sysinfo(&machine) == 0) {
    s.total = size_t{machine.totalram} * machine.mem_unit;
    s.free = (size_t{machine.freeram} + machine.bufferram) * machine.mem_unit;
  }
  return s;
}

void CpuAllocator::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = allocated_.load(MemoryOrder::relaxed);
  peak_reserved_ = reserved_;
  update_threshold();
}

void CpuAllocator::empty_cache() {
  {
    std::lock_guard lock(mutex_);
    epoch_.fetch_add(1, MemoryOrder::relaxed);
    if (phase == Phase::alive) note_new_epoch();
    evict(0);
    trim();
  }
  detail::trim_free_lists();
  if (caching) malloc_trim(0);
}

void CpuAllocator::set_limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes == 0 ? unlimited : bytes;
  update_threshold();
}

}  // namespace

size_t detail::thread_allocated_bytes() { return local.bytes_so_far; }

Allocator& cpu_allocator() { return immortal.allocator; }

}  // namespace weft
