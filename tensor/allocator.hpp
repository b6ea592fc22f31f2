// Interface of a device's memory allocator, and the process-wide list of allocators that backends register.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config.hpp"
#include "device.hpp"

namespace weft {

/// Memory of one device; all figures but `allocations` are in bytes. CPU data of up to 64 bytes is stored in the
/// tensor's own block and is not counted.
struct MemoryStats {
  size_t allocated = 0;       ///< held by live tensors
  size_t reserved = 0;        ///< obtained from the system or driver, including cached blocks
  size_t peak_allocated = 0;  ///< since the start or the last `reset_peak`
  size_t peak_reserved = 0;
  size_t allocations = 0;  ///< number of allocations so far
  size_t total = 0;        ///< memory of the device; 0 if unknown
  size_t free = 0;
  size_t limit = 0;  ///< set by `set_memory_limit`; 0 means no limit
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Returns at least `bytes` (> 0) bytes, 64-byte aligned, or nullptr if the device is out of memory or the limit is
  /// reached.
  virtual void* allocate(size_t bytes) = 0;
  /// `bytes`: the size that was passed to `allocate`.
  virtual void free(void* data, size_t bytes) = 0;
  virtual MemoryStats stats() = 0;
  virtual void reset_peak() = 0;
  /// Returns cached blocks to the system.
  virtual void empty_cache() = 0;
  virtual void set_limit(size_t bytes) = 0;
};

/// The allocator of a device, or nullptr if the device does not exist.
WEFT_API Allocator* find_allocator(Device device);
/// Called by backends. The allocator must outlive every tensor.
WEFT_API void register_allocator(Device device, Allocator* allocator);

/// The CPU's caching allocator: size classes, thread-local bins, huge pages for large blocks.
WEFT_API Allocator& cpu_allocator();
namespace detail {
/// Bytes that the calling thread has allocated on the CPU so far, including freed ones; for profiling.
size_t thread_allocated_bytes();
/// Starts the backend of a device type, unless it is already running; the backend registers its allocators. Defined in
/// backends/.
void start_backend(DeviceType type);
}  // namespace detail

/// Memory statistics of a device; all zeros for meta. This and the next three functions raise DeviceError if the device
/// does not exist.
WEFT_API MemoryStats memory_stats(Device device = {}, Location where = {});
/// Sets both peaks to the current values.
WEFT_API void reset_peak(Device device = {}, Location where = {});
/// Returns cached blocks to the system or driver.
WEFT_API void empty_cache(Device device = {}, Location where = {});
/// Sets a limit: allocations that would raise `allocated` above `bytes` raise OutOfMemoryError. 0 removes the limit.
WEFT_API void set_memory_limit(Device device, size_t bytes, Location where = {});

}  // namespace weft
