// Wire between GPUs by NCCL. The host's wire synchronizes the calls and finds missing ranks.
#pragma once

#include <memory>
#include <string>

#include "../detail/wire.hpp"
#include "library.hpp"

namespace weft::distributed::nccl {

/// Queue of NCCL's work, with its progress.
class WEFT_API Queue {
 public:
  virtual ~Queue();
  /// The stream for NCCL.
  virtual void* handle() = 0;
  /// `mark` records the current end of the queue; `reached` returns whether all work before the mark is done.
  virtual void mark() = 0;
  virtual bool reached() = 0;
};

/// A rank's device.
struct Site {
  /// Whether the device wire is to be used.
  bool wanted = true;
  /// nullptr if there is no library.
  const Library* library = nullptr;
  Device device;
  /// Name of the device, unique over all processes.
  std::string identity;
  /// If true on all ranks, NCCL reduces floats, in its own order.
  bool own_sums = false;
  /// Creates the calling thread's queue.
  Callback<std::unique_ptr<Queue>()> queue;
  /// Runs a function with the device as the thread's current one; skipped after the device's runtime has shut down.
  Callback<void(const Callback<void()>&)> enter;
};

/// Connects the devices of the ranks that `host` connects; called by all of them. Null on all ranks if one does not
/// want it; also, with a warning, if one has no library, has another version of it, or shares its device. Raises
/// DistributedError with NCCL's message if connecting fails.
WEFT_API Shared<detail::Wire> connect(const Site& site, const Shared<detail::Wire>& host, int rank, int ranks,
                                      const detail::CallRecord& call, detail::Clock::time_point deadline);

}  // namespace weft::distributed::nccl
