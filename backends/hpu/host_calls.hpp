// Functions of the host that a queue waits for. Level Zero has no command for that: a thread looks for their time to
// come.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "event.hpp"

namespace weft::hpu {

/// Thread-safe. The thread starts with the first call.
class HostCalls {
 public:
  struct Call {
    Shared<HpuFence> ready;
    /// Signalled when the function has run.
    Shared<HpuFence> done;
    Callback<void()> function;
  };
  void add(Call call);
  /// Drops functions that have not run.
  void stop() noexcept;

 private:
  void loop();
  /// Calls of several queues: none may wait for one behind it.
  void run_ready(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Call> calls_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weft::hpu
