// The caching allocator of one device, and that of pinned memory.
//
// A block belongs to the queue of its first allocation. After it is freed, that queue may reuse it at once, since its
// commands run in order. If other queues used the block, it is held back until they have passed that point.
#pragma once

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device.hpp"
#include "../../tensor/allocator.hpp"

namespace weft {

class DeviceAllocator final : public Allocator {
 public:
  /// Pinned memory belongs to no queue: each that uses it must be noted.
  enum class Memory : uint8_t { device, pinned };
  DeviceAllocator(QueuedDevice& device, Memory memory) : device_(device), memory_(memory) {}

  void* allocate(size_t bytes) override;
  void free(void* data, size_t bytes) override;
  MemoryStats stats() override;
  void reset_peak() override;
  void empty_cache() override;
  void set_limit(size_t bytes) override;

  size_t reserved();
  /// Memory that stays with the device: reserved, but no tensor's. nullptr where there is no more.
  void* reserve(size_t bytes);
  /// `queue` was given work on the block around `data`; nothing where there is none.
  void note_use(const void* data, CommandQueue& queue);
  /// Whether `data` is in memory that it took from the driver.
  bool has(const void* data);
  /// The driver's allocation around `data`, for other processes; null where it is none of these.
  struct Allocation {
    void* base = nullptr;
    size_t bytes = 0;
  };
  Allocation allocation_around(const void* data);
  /// Returns the cache to the driver; its queues must be idle.
  void release_all() noexcept;
  /// Returns all memory, that of live tensors, too: the device is closed, and nobody can reach it any more.
  void abandon() noexcept;

 private:
  /// Memory of the driver's, in equal blocks of one size class.
  struct Slab {
    size_t bytes, block_bytes;
    int size_class;
    size_t blocks, free_blocks;
    CommandQueue* home;  ///< null for pinned memory
  };
  using Slabs = std::map<char*, Slab>;
  /// There is room for every block of the class, so that one can always be put back.
  struct FreeBlocks {
    std::vector<void*> blocks;
    size_t all = 0;
  };
  /// By size class.
  using Stock = std::vector<FreeBlocks>;
  struct Resting {
    void* data;
    std::vector<CommandQueue*> users;   ///< whose present end is still to be marked
    std::vector<Shared<Fence>> marked;  ///< where the others were
  };

  size_t block_bytes(size_t bytes) const;
  void* take(size_t bytes, CommandQueue* home);
  void* from_driver(size_t bytes, size_t block_bytes, int size_class, CommandQueue* home);
  Stock& stock_of(const CommandQueue* home);
  Slabs::iterator slab_around(const void* data);
  void put_back(void* data);
  bool has_rested(Resting& block) noexcept;
  void wake_rested();
  void give_back(Slabs::iterator slab) noexcept;
  void release_cached() noexcept;

  QueuedDevice& device_;
  const Memory memory_;
  std::mutex mutex_;  ///< never held while the device is waited for: what runs then may free
  Slabs slabs_;
  std::vector<Stock> stocks_;                                    ///< by the number of the queue
  std::unordered_map<void*, std::vector<CommandQueue*>> users_;  ///< of live blocks, other than their home
  std::vector<Resting> resting_;
  size_t wake_at_ = 0;         ///< when so many rest, it is looked whose time has come
  uint64_t driver_calls_ = 0;  ///< that took memory or returned it
  size_t allocated_ = 0, reserved_ = 0, peak_allocated_ = 0, peak_reserved_ = 0, allocations_ = 0, limit_ = 0;
};

}  // namespace weft
