// Ranks whose tensors lie on GPUs: these send to each other, and the wire on the host says when, and who is missing.
#pragma once

#include <memory>
#include <string>

#include "../detail/wire.hpp"
#include "library.hpp"

namespace weft::distributed::nccl {

/// Where NCCL's work is queued, and how far it is.
class WEFT_API Queue {
 public:
  virtual ~Queue();
  /// What NCCL calls a stream.
  virtual void* handle() = 0;
  /// `reached` asks for what is queued by now.
  virtual void mark() = 0;
  virtual bool reached() = 0;
};

/// A rank's device.
struct Site {
  /// Whether it is to be used.
  bool wanted = true;
  /// nullptr where there is none.
  const Library* library = nullptr;
  Device device;
  /// What all processes call it.
  std::string identity;
  /// Floats are summed and multiplied by NCCL, in its order, where all ranks say so.
  bool own_sums = false;
  /// The calling thread's queue.
  Callback<std::unique_ptr<Queue>()> queue;
  /// Runs a function with the device as the thread's current one; not at all once the device's runtime is gone.
  Callback<void(const Callback<void()>&)> enter;
};

/// The wire between the devices of the ranks that `host` connects, made by all of them; null for all where one
/// does not want it, and, with a warning, where one has no library or another version of it, or shares its device.
/// DistributedError with NCCL's words where it fails.
WEFT_API Shared<detail::Wire> connect(const Site& site, const Shared<detail::Wire>& host, int rank, int ranks,
                                      const detail::CallRecord& call, detail::Clock::time_point deadline);

}  // namespace weft::distributed::nccl
