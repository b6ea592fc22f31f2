// A queue between threads.
#pragma once

#include <deque>

#include <torch/data/detail/threads.h>

namespace torch::data::detail {

template <class T>
class Queue {
 public:
  void push(T value) {
    {
      const Monitor::Lock lock(monitor_);
      queue_.push_back(std::move(value));
    }
    monitor_.notify();
  }
  /// Waits for a value. Raises an error after the timeout.
  T pop(optional<std::chrono::milliseconds> timeout = nullopt) {
    const Monitor::Lock lock(monitor_);
    TORCH_CHECK(monitor_.wait([this] { return !queue_.empty(); }, timeout),
                "Timeout in DataLoader queue while waiting for next batch (timeout was ",
                timeout.value_or(std::chrono::milliseconds(0)).count(), " ms)");
    T value = std::move(queue_.front());
    queue_.pop_front();
    return value;
  }
  /// Removes all values, and returns their number.
  size_t clear() {
    const Monitor::Lock lock(monitor_);
    const size_t count = queue_.size();
    queue_.clear();
    return count;
  }

 private:
  std::deque<T> queue_;
  Monitor monitor_;
};

}  // namespace torch::data::detail
