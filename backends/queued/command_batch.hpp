// Kernels of a device as commands that it runs again by themselves: nothing is planned or checked on the host.
#pragma once

#include <memory>

#include "../../tensor/device.hpp"

namespace weft {

class RecordedKernel;

class CommandBatch {
 public:
  /// Waits until the device is done with it.
  virtual ~CommandBatch() = default;
  /// Queues its commands on the device's default queue, in their order.
  virtual void run() = 0;
};

/// Records the commands that kernels of the calling thread queue on a device's default queue.
class KernelNotes {
 public:
  virtual ~KernelNotes() = default;
  /// Runs the kernel. False if its commands cannot be replayed; then it is in no batch.
  virtual bool run(RecordedKernel& kernel) = 0;
  /// Of all that was noted since the last one.
  virtual std::unique_ptr<CommandBatch> batch() = 0;
};

/// Null where the device has no batches of commands.
std::unique_ptr<KernelNotes> note_kernels(Device device);

}  // namespace weft
