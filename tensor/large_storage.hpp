// Records large live storages with the location that allocated each, and formats the out-of-memory error.
//
// Only errors read this table. It covers storages from 1 MiB on, so small ops are unaffected.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "atomic.hpp"
#include "call.hpp"
#include "device.hpp"
#include "memory_use.hpp"

namespace weft {
struct Storage;
}

namespace weft::detail {

/// Smaller storages are not recorded, unless a watch is set: that would slow down small ops.
inline constexpr size_t large_storage_bytes = size_t{1} << 20;
/// Storages of at least this size are recorded.
extern Atomic<size_t> noted_bytes;

/// Records the memory that the running op allocated for `storage`. Does nothing if the host is out of memory.
void note_storage(const Storage* storage) noexcept;
void forget_storage(const Storage* storage) noexcept;

struct StorageNote {
  const Storage* storage;  ///< identity only; it may already be freed
  Device device;
  size_t bytes;
  CallPlace place;
  MemoryUse use;
};
/// The large live storages of a device.
std::vector<StorageNote> large_storages(Device device);

/// Notified of every allocation and release of a storage that is not stored beside its head, on the thread where it
/// happens, one call at a time. It must not allocate tensors.
class StorageWatch {
 public:
  virtual ~StorageWatch();
  virtual void made(const Storage& storage) noexcept = 0;
  virtual void freed(const Storage& storage) noexcept = 0;
};
/// Sets the watch of all threads, of which there is one; null removes it.
void set_storage_watch(StorageWatch* watch);

/// Raises OutOfMemoryError with the requested size, the free, allocated and reserved memory, and the largest storages.
/// `purpose` is appended to "no 4096 bytes".
[[noreturn]] void raise_out_of_memory(Device device, size_t bytes, const char* purpose = "");
/// "the largest: 8388608 of matmul at net.cpp:12, 4194304 of zeros at net.cpp:7": at most three, of one device. Empty
/// if there are none.
std::string largest_storages(Device device);

}  // namespace weft::detail
