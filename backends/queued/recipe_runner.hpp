// Launches of one stream, handed to the driver by a thread of their own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "../../tensor/callback.hpp"
#include "../../tensor/call.hpp"
#include "../../tensor/config.hpp"

namespace weft {

/// Launches run in the order in which they were given, each under the op and place that gave it. The first one that
/// raises stops those behind it, until `rethrow` has told of it. Thread-safe; the thread starts with the first launch.
class WEFT_API RecipeRunner {
 public:
  RecipeRunner() = default;
  ~RecipeRunner() { stop(); }
  RecipeRunner(const RecipeRunner&) = delete;

  /// Returns at once, unless `most_waiting` launches are before it. The captures of `launch` are destroyed on the
  /// thread as soon as it has run. They must own its inputs, but nothing with a destructor that waits for this stream.
  void run(Callback<void()> launch);
  /// Until all earlier launches have run or were skipped. Not from inside a launch.
  void drain() noexcept;
  /// Raises the errors of launches since the last call.
  void rethrow();
  /// Drains and ends the thread; launches that are given later are dropped.
  void stop() noexcept;

  static constexpr size_t most_waiting = 4096;

 private:
  struct Task {
    CallPlace place;
    Callback<void()> launch;
  };
  void loop();
  std::exception_ptr run_now(Task task) noexcept;

  std::mutex mutex_;
  std::condition_variable given_, progressed_;
  std::deque<Task> tasks_;
  uint64_t queued_ = 0, finished_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace weft
