// The backends' part of ipc: memory of this process under a name by which another one opens it.
//
// Shared memory is an unlinked file that another process opens through the sharer's descriptor. So a killed process
// leaves nothing. A handle stores the inode, so it never opens another file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "../tensor/device.hpp"

namespace weft {

/// 64 bytes of the driver's.
using SharedName = std::array<uint8_t, 64>;

/// Thread-safe. A failed call raises DeviceError with the driver's function and code.
class MemorySharing {
 public:
  /// A whole allocation of the driver's. `descriptor` is a file of this process that the name begins with, which the
  /// other process gets as a file of its own; -1 where the name says all.
  struct Exported {
    void* base = nullptr;
    size_t bytes = 0;
    int descriptor = -1;
    SharedName name = {};
  };

  virtual ~MemorySharing() = default;
  /// The allocation around `data`; its base is null where the memory is not of a kind that can be shared.
  virtual Exported share(int index, const void* data) = 0;
  virtual void* open(int index, const SharedName& name, size_t bytes) = 0;
  /// Waits for the device.
  virtual void close(int index, void* base, size_t bytes) noexcept = 0;
};

/// Of a kind of device that can be used; nullptr where there is none or it cannot share.
MemorySharing* find_memory_sharing(DeviceType type);
/// Called by backends as they start.
void register_memory_sharing(DeviceType type, MemorySharing& sharing);

/// Memory of the host that other processes can open, zeroed. Its mapping goes with `free_shared_memory`; other
/// processes keep theirs. OutOfMemoryError.
void* make_shared_memory(size_t bytes);
void free_shared_memory(void* base) noexcept;

/// A file of another process as one of this: its number here, or -1 where the process is gone or closed to this one.
int take_descriptor(int64_t process, int descriptor);

}  // namespace weft
