// Pinned host memory of a device type.
#pragma once

#include "../tensor/allocator.hpp"
#include "../tensor/location.hpp"

namespace weft {

/// Usage of the memory for `x.pin_memory()` and non-blocking copies of this device type, shared by all of its devices;
/// `total`, `free` and `limit` are 0. Excludes upload buffers of queues. All zeros for cpu and meta. Raises DeviceError
/// if the device does not exist.
WEFT_API MemoryStats pinned_memory_stats(Device device, Location where = {});
/// Returns memory to the system that no tensor and no copy uses.
WEFT_API void empty_pinned_cache(Device device, Location where = {});

}  // namespace weft
