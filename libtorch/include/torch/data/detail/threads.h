// A lock to wait on, and threads, without the standard library's large headers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <torch/types.h>

namespace torch::data::detail {

/// A mutex with a condition variable.
class Monitor {
 public:
  Monitor();
  Monitor(const Monitor&) = delete;
  ~Monitor();

  /// Holds the mutex while it lives.
  class Lock {
   public:
    explicit Lock(const Monitor& monitor);
    Lock(const Lock&) = delete;
    ~Lock();

   private:
    const Monitor& monitor_;
  };

  /// Waits until the condition is true. Returns whether it is, before the timeout. The caller holds a Lock.
  template <class Condition>
  bool wait(const Condition& condition, optional<std::chrono::milliseconds> timeout = nullopt) const {
    const auto deadline = std::chrono::steady_clock::now() + timeout.value_or(std::chrono::milliseconds(0));
    while (!condition()) {
      if (!timeout) wait_once();
      else if (!wait_once_until(deadline)) return condition();
    }
    return true;
  }
  void notify() const;

 private:
  void wait_once() const;
  bool wait_once_until(std::chrono::steady_clock::time_point deadline) const;

  struct State;
  std::unique_ptr<State> state_;
};

/// Threads that are joined by join() or with the object.
class Threads {
 public:
  Threads();
  Threads(const Threads&) = delete;
  ~Threads();
  void start(std::function<void()> work);
  void join();
  size_t size() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace torch::data::detail
