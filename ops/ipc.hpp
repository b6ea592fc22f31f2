// Tensors in memory that several processes of one machine and user share.
//
//   const Tensor x = share_memory(zeros({1000}));      // the CPU's; a device's tensors can be shared as they are
//   send(share(x).bytes);                               // by a pipe, a socket, a file
//   const Tensor same = open_shared({received});        // in the other process: what one writes, both see
//
// The other process can access the whole driver allocation that contains a device's tensor, other tensors included.
//
// Lifetime: the sharing process must keep `x` until the others have opened the handle, and a device's tensor until they
// have released theirs. On the CPU an opened tensor keeps the memory alive on its own. A handle can be opened any
// number of times while its tensor exists; afterwards, or after its process has ended, opening raises DeviceError.
// Processes are not synchronised: `share` waits for the work queued on the tensor's current stream, and readers see
// later writes once the writer has waited for them and notified the readers.
#pragma once

#include <string>

#include "../tensor/location.hpp"
#include "../tensor/tensor.hpp"

namespace weft {

/// Names shared memory and the tensor in it: shape, strides, dtype, device.
struct IpcHandle {
  std::string bytes;
  /// Two digits for each byte, for logs.
  WEFT_API std::string hex() const;
};

/// A tensor of x's shape, values and dtype that `share` accepts: x itself on a device or already in shared memory, else
/// a contiguous copy. Raises ValueError on meta.
[[nodiscard]] WEFT_API Tensor share_memory(const Tensor& x, Location where = {});
/// x's values without its history. ValueError where its memory cannot be shared: a CPU tensor that `share_memory` did
/// not make, memory from outside, meta.
WEFT_API IpcHandle share(const Tensor& x, Location where = {});
/// The shared tensor; memory from outside, so no op reuses it. The device's index means the same in both processes.
/// Where the last tensor of it is dropped, its memory is unmapped, after a wait for the device. FormatError for bytes
/// that are no handle; DeviceError where the memory is gone, the sharer's process is another user's, or may not be
/// traced (ptrace) while the memory is a device's. CUDA opens no handle in the process that shared.
[[nodiscard]] WEFT_API Tensor open_shared(const IpcHandle& handle, Location where = {});

}  // namespace weft
