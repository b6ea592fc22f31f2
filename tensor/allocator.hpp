// The interface to a device's memory, and the process-wide list of allocators that backends fill.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config.hpp"
#include "device.hpp"

namespace weft {

/// In bytes. Data of up to 64 bytes on the CPU lies in the tensor's own block and is not counted.
struct MemoryStats {
  size_t allocated = 0;       ///< held by live tensors
  size_t reserved = 0;        ///< taken from the system or driver, cached blocks included
  size_t peak_allocated = 0;  ///< since the start or `reset_peak`
  size_t peak_reserved = 0;
  size_t allocations = 0;  ///< number of allocations so far
  size_t total = 0;        ///< of the device; 0 where unknown
  size_t free = 0;
  size_t limit = 0;  ///< set by `set_memory_limit`; 0 is none
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  /// At least `bytes` (> 0) bytes, 64-byte aligned; nullptr where the device is out of memory or the limit is reached.
  virtual void* allocate(size_t bytes) = 0;
  /// `bytes` as given to `allocate`.
  virtual void free(void* data, size_t bytes) = 0;
  virtual MemoryStats stats() = 0;
  virtual void reset_peak() = 0;
  /// Returns cached blocks to the system.
  virtual void empty_cache() = 0;
  virtual void set_limit(size_t bytes) = 0;
};

/// The allocator of a device, or nullptr where no such device exists.
WEFT_API Allocator* find_allocator(Device device);
/// Called by backends; the object must outlive every tensor.
WEFT_API void register_allocator(Device device, Allocator* allocator);

/// The CPU's caching allocator: size classes, thread-local bins, huge pages for large blocks.
WEFT_API Allocator& cpu_allocator();
namespace detail {
/// Bytes that the calling thread has allocated on the CPU so far, freed or not; for profiling.
size_t thread_allocated_bytes();
/// Starts the backend of a kind of device, which registers its allocators, unless it runs already. Defined in
/// backends/.
void start_backend(DeviceType type);
}  // namespace detail

/// The memory of a device, all zeros for meta. These four raise DeviceError where there is no such device.
WEFT_API MemoryStats memory_stats(Device device = {}, Location where = {});
/// Sets both peaks to the present use.
WEFT_API void reset_peak(Device device = {}, Location where = {});
/// Returns cached blocks to the system or driver.
WEFT_API void empty_cache(Device device = {}, Location where = {});
/// Allocations that would take `allocated` beyond `bytes` raise OutOfMemoryError; 0 lifts the limit.
WEFT_API void set_memory_limit(Device device, size_t bytes, Location where = {});

}  // namespace weft
