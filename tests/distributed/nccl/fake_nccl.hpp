// Shared by tests and the NCCL replacement: streams, faults, and counts of calls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace fake_nccl {

/// Runs queued work on a separate thread, like a GPU stream.
class Stream {
 public:
  Stream() : thread_([this] { work(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void push(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
      ++queued_;
    }
    changed_.notify_all();
  }
  uint64_t queued() {
    const std::lock_guard lock(mutex_);
    return queued_;
  }
  uint64_t done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()> next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      next();
      lock.lock();
      ++done_;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  uint64_t queued_ = 0, done_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

/// The next fault of a rank, and counts of calls. Cleared by `reset`.
enum class Fault : int { none, init_fails, send_fails, async_error, hangs, no_id };
using SetFault = void (*)(Fault fault, int rank);
using Count = int (*)(const char* what);
using Reset = void (*)();

}  // namespace fake_nccl
