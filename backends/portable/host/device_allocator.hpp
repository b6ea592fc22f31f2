// The caching allocator of one device. A freed block may be handed out again at once, since commands run in order; what
// goes back to the driver waits for the queue first.
#pragma once

#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "accelerator.hpp"
#include "../../../tensor/allocator.hpp"

namespace weft::portable::host {

class DeviceAllocator final : public Allocator {
 public:
  explicit DeviceAllocator(Accelerator& device) : device_(device) {}

  void* allocate(size_t bytes) override;
  void free(void* data, size_t bytes) override;
  MemoryStats stats() override;
  void reset_peak() override;
  void empty_cache() override;
  void set_limit(size_t bytes) override;

  size_t reserved() const { return reserved_; }
  /// Memory that stays with the device: reserved, but no tensor's. nullptr where there is no more.
  void* reserve(size_t bytes);
  /// Returns the cache to a driver whose queue is idle.
  void release_all() noexcept;

 private:
  /// Driver memory that is cut into blocks of one size class.
  struct Slab {
    size_t bytes;
    int size_class;
    size_t blocks, free_blocks;
  };
  void* take_block(size_t bytes);
  void* from_driver(size_t bytes);
  void* carve(int size_class);
  void give_back(void* data, size_t bytes) noexcept;
  void release_cached() noexcept;
  Slab& slab_of(void* data) { return std::prev(slabs_.upper_bound(static_cast<char*>(data)))->second; }

  Accelerator& device_;
  std::mutex mutex_;
  std::vector<std::vector<void*>> cached_;  ///< by size class
  std::map<char*, Slab> slabs_;
  size_t allocated_ = 0, reserved_ = 0, peak_allocated_ = 0, peak_reserved_ = 0, allocations_ = 0, limit_ = 0;
};

/// Device memory for the duration of a kernel's host code: the queue keeps to the order, so it may be freed at once.
class ScratchMemory {
 public:
  ScratchMemory(Accelerator& device, size_t bytes);
  ~ScratchMemory();
  ScratchMemory(const ScratchMemory&) = delete;
  void* data() const { return data_; }

 private:
  Accelerator& device_;
  size_t bytes_;
  void* data_;
};

}  // namespace weft::portable::host
