// Which large storages live and where in the program each was made, and the error that says so.
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

/// Smaller ones are not known, unless a watch is there: to note them would cost small ops more than it tells.
inline constexpr size_t large_storage_bytes = size_t{1} << 20;
/// Storages of so many bytes are noted now.
extern Atomic<size_t> noted_bytes;

/// `storage` was given memory by the op that runs. Where the host's memory is short, it stays unknown.
void note_storage(const Storage* storage) noexcept;
void forget_storage(const Storage* storage) noexcept;

struct StorageNote {
  const Storage* storage;  ///< which one; it may be gone by now
  Device device;
  size_t bytes;
  CallPlace place;
  MemoryUse use;
};
/// The large storages of a device that live.
std::vector<StorageNote> large_storages(Device device);

/// Told of every storage beside its head that is given memory or loses it, by the thread on which that happens and one
/// at a time. It allocates no tensors.
class StorageWatch {
 public:
  virtual ~StorageWatch();
  virtual void made(const Storage& storage) noexcept = 0;
  virtual void freed(const Storage& storage) noexcept = 0;
};
/// One watch at a time, for all threads; null for none.
void set_storage_watch(StorageWatch* watch);

/// OutOfMemoryError: what was asked, what is free, allocated and reserved, and what fills the memory. `purpose` follows
/// "no 4096 bytes".
[[noreturn]] void raise_out_of_memory(Device device, size_t bytes, const char* purpose = "");
/// "the largest: 8388608 of matmul at net.cpp:12, 4194304 of zeros at net.cpp:7": at most three, of one device. Empty
/// where there is none.
std::string largest_storages(Device device);

}  // namespace weft::detail
