#include "device_allocator.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "../../../tensor/error.hpp"

namespace weft::portable::host {

namespace {

constexpr size_t granule = 64;
constexpr size_t slab_bytes = size_t{1} << 20;
constexpr size_t carved_limit = slab_bytes / 16;
constexpr size_t class_limit = size_t{1} << 46;

/// 64, 128, 192, 256, then 5/4, 6/4, 7/4 and 8/4 of each power of two.
int class_of(size_t bytes) {
  if (bytes <= 4 * granule) return static_cast<int>((bytes - 1) / granule);
  const int power = std::bit_width(bytes - 1) - 1;
  return (power - 7) * 4 + static_cast<int>((bytes - 1) >> (power - 2)) - 4;
}
size_t class_bytes(int c) {
  if (c < 4) return static_cast<size_t>(c + 1) * granule;
  return static_cast<size_t>(c % 4 + 5) << (c / 4 + 5);
}

}  // namespace

void* DeviceAllocator::from_driver(size_t bytes) {
  void* data = device_.take_memory(bytes);
  if (data == nullptr && device_.drain()) {
    release_cached();
    data = device_.take_memory(bytes);
  }
  if (data == nullptr) return nullptr;
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return data;
}

void* DeviceAllocator::reserve(size_t bytes) {
  const std::lock_guard order(device_.mutex());
  const std::lock_guard lock(mutex_);
  return from_driver(bytes);
}

void* DeviceAllocator::carve(int c) {
  const size_t size = class_bytes(c);
  char* base = static_cast<char*>(from_driver(slab_bytes));
  if (base == nullptr) return nullptr;
  const size_t blocks = slab_bytes / size;
  slabs_[base] = {slab_bytes, c, blocks, blocks - 1};
  for (size_t i = blocks; i-- > 1;) cached_[static_cast<size_t>(c)].push_back(base + i * size);
  return base;
}

void* DeviceAllocator::take_block(size_t bytes) {
  const int c = class_of(bytes);
  if (cached_.size() <= static_cast<size_t>(c)) cached_.resize(static_cast<size_t>(c) + 1);
  std::vector<void*>& stock = cached_[static_cast<size_t>(c)];
  const bool carved = class_bytes(c) <= carved_limit;
  if (stock.empty()) return carved ? carve(c) : from_driver(class_bytes(c));
  void* data = stock.back();
  stock.pop_back();
  if (carved) --slab_of(data).free_blocks;
  return data;
}

void* DeviceAllocator::allocate(size_t bytes) {
  const std::lock_guard order(device_.mutex());  // before our own: asking the driver may wait for the queue
  std::lock_guard lock(mutex_);
  device_.require_open();
  if (bytes > class_limit || (limit_ != 0 && (bytes > limit_ || allocated_ > limit_ - bytes))) return nullptr;
  // Exact blocks let a strict driver see every access past an end.
  void* data = device_.has_exact_blocks() ? from_driver(bytes) : take_block(bytes);
  if (data == nullptr) return nullptr;
  ++allocations_;
  allocated_ += bytes;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return data;
}

void DeviceAllocator::give_back(void* data, size_t bytes) noexcept {
  device_.return_memory(data);
  reserved_ -= bytes;
}

void DeviceAllocator::free(void* data, size_t bytes) {
  const std::lock_guard order(device_.mutex());
  std::lock_guard lock(mutex_);
  allocated_ -= bytes;
  if (device_.closed()) return;
  if (device_.has_exact_blocks()) {
    if (device_.drain()) give_back(data, bytes);
    return;
  }
  const int c = class_of(bytes);
  cached_[static_cast<size_t>(c)].push_back(data);
  if (class_bytes(c) <= carved_limit) ++slab_of(data).free_blocks;
}

/// Blocks of slabs that are wholly free, and all larger blocks.
void DeviceAllocator::release_cached() noexcept {
  for (size_t c = 0; c < cached_.size(); ++c) {
    const size_t size = class_bytes(static_cast<int>(c));
    if (size <= carved_limit) {
      std::erase_if(cached_[c], [&](void* data) {
        const Slab& slab = slab_of(data);
        return slab.free_blocks == slab.blocks;
      });
      continue;
    }
    for (void* data : cached_[c]) give_back(data, size);
    cached_[c].clear();
  }
  std::erase_if(slabs_, [&](const auto& entry) {
    if (entry.second.free_blocks != entry.second.blocks) return false;
    give_back(entry.first, entry.second.bytes);
    return true;
  });
}

void DeviceAllocator::release_all() noexcept {
  std::lock_guard lock(mutex_);
  release_cached();
}

void DeviceAllocator::empty_cache() {
  const std::lock_guard order(device_.mutex());
  std::lock_guard lock(mutex_);
  if (device_.drain()) release_cached();
}

MemoryStats DeviceAllocator::stats() {
  const std::lock_guard order(device_.mutex());
  std::lock_guard lock(mutex_);
  MemoryStats s;
  s.allocated = allocated_;
  s.reserved = reserved_;
  s.peak_allocated = peak_allocated_;
  s.peak_reserved = peak_reserved_;
  s.allocations = allocations_;
  s.total = device_.total_memory();
  s.free = device_.free_memory();
  s.limit = limit_;
  return s;
}

void DeviceAllocator::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_allocated_ = allocated_;
  peak_reserved_ = reserved_;
}

void DeviceAllocator::set_limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

ScratchMemory::ScratchMemory(Accelerator& device, size_t bytes)
    : device_(device), bytes_(bytes), data_(device.allocator().allocate(bytes)) {
  if (data_ != nullptr) return;
  const MemoryStats s = device.allocator().stats();
  const CallPlace place = detail::current_call;
  throw OutOfMemoryError(
      format_error({.op = place.op != nullptr ? place.entry : "memory",
                    .problem = fmt::format("no {} bytes for intermediate results on {}", bytes, device.device().name()),
                    .details = fmt::format("{} allocated, {} reserved, {} free, limit {}", s.allocated, s.reserved,
                                           s.free, s.limit)},
                   place.where),
      bytes, s.allocated, s.reserved, s.limit);
}

ScratchMemory::~ScratchMemory() { device_.allocator().free(data_, bytes_); }

}  // namespace weft::portable::host
