#include "faults/failing_memory.hpp"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <unordered_set>
#include <vector>

#include <weft/tensor/allocator.hpp>
#include <weft/tensor/free_list.hpp>
#include <weft/tensor/slabs.hpp>

namespace {

std::atomic<bool> set{false};
std::atomic<int64_t> asked{0}, failed{0}, in_use{0}, from_system{0};
weft::faults::Fault fault;
constinit thread_local int served = 0;

bool fails() {
  if (!set.load(std::memory_order_relaxed) || served != 0) return false;
  const int64_t n = asked.fetch_add(1, std::memory_order_relaxed) + 1;
  using Kind = weft::faults::Fault::Kind;
  const bool no = fault.kind == Kind::once ? n == fault.k : fault.kind == Kind::after ? n >= fault.k : n % fault.k == 0;
  if (no) failed.fetch_add(1, std::memory_order_relaxed);
  return no;
}

void* obtain(std::size_t bytes, std::size_t alignment) {
  if (fails()) return nullptr;
  void* data =
      alignment <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes) : memalign(alignment, bytes);
  if (data != nullptr) in_use.fetch_add(1, std::memory_order_relaxed);
  return data;
}
void* obtain_or_throw(std::size_t bytes, std::size_t alignment) {
  void* data = obtain(bytes, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
void give_back(void* data) {
  if (data == nullptr) return;
  in_use.fetch_sub(1, std::memory_order_relaxed);
  std::free(data);
}

constexpr std::size_t usual = alignof(std::max_align_t);

}  // namespace

// NOLINTBEGIN: these stand in for the program's
void* operator new(std::size_t n) { return obtain_or_throw(n, usual); }
void* operator new[](std::size_t n) { return obtain_or_throw(n, usual); }
void* operator new(std::size_t n, std::align_val_t a) { return obtain_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return obtain_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return obtain(n, usual); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return obtain(n, usual); }
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, std::size_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }

extern "C" {
// Heads and nodes come from the first, elements from the second.
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  from_system.fetch_add(1, std::memory_order_relaxed);
  return fails() ? nullptr : memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  void* data = fails() ? nullptr : memalign(alignment, bytes);
  if (data == nullptr) return ENOMEM;
  *out = data;
  return 0;
}
}
// NOLINTEND

// In the place of tensor/slabs.cpp: each block is a request of its own, so that each may fail.
namespace weft::detail {
void* Slabs::allocate(std::size_t bytes) { return aligned_alloc(64, bytes); }
void Slabs::free(void* block) { std::free(block); }
void Slabs::trim() {}
}  // namespace weft::detail

namespace weft::faults {

namespace {

// Blocks that the free lists and the depot held: kept until the fault is over.
std::vector<std::pair<void*, std::size_t>> drained;

bool drain_free_lists() {
  std::unordered_set<void*> seen;
  std::vector<void*> fresh;
  for (int c = 0; c < detail::block_classes; ++c) {
    const std::size_t size = (static_cast<std::size_t>(c) + 1) * detail::block_granule;
    const int64_t before = from_system.load();
    while (from_system.load() == before) {
      drained.emplace_back(detail::allocate_block(size), size);
      if (!seen.insert(drained.back().first).second) return false;
    }
    fresh.push_back(drained.back().first);
    drained.pop_back();
  }
  for (void* block : fresh) std::free(block);  // so that the lists do not grow
  return true;
}

void refill_free_lists() {
  for (const auto& [block, size] : drained) detail::free_block(block, size);
  drained.clear();
}

}  // namespace

FailingMemory::FailingMemory(Fault wanted) {
  drain_free_lists();
  empty_cache();
  fault = wanted;
  asked = 0, failed = 0;
  set = true;
}
FailingMemory::~FailingMemory() {
  set = false;
  refill_free_lists();
}
int64_t FailingMemory::failures() const { return failed.load(); }
int64_t FailingMemory::requests() const { return asked.load(); }

bool free_lists_are_sound() {
  const bool sound = drain_free_lists();
  if (sound) refill_free_lists();
  return sound;
}

Served::Served() { ++served; }
Served::~Served() { --served; }

int64_t blocks_in_use() { return in_use.load(); }

}  // namespace weft::faults
