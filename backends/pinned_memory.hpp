// What a kind of device has of the host's pinned memory.
#pragma once

#include "../tensor/allocator.hpp"
#include "../tensor/location.hpp"

namespace weft {

/// Of the memory that `x.pin_memory()` and copies that do not block take for this kind of device, all of whose devices
/// share it; `total`, `free` and `limit` are 0. Memory that a device's queues keep for uploads is not in it. All zeros
/// for cpu and meta. DeviceError where there is no such device.
WEFT_API MemoryStats pinned_memory_stats(Device device, Location where = {});
/// Returns to the system what no tensor has and no copy uses.
WEFT_API void empty_pinned_cache(Device device, Location where = {});

}  // namespace weft
