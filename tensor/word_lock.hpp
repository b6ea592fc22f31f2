// A lock of four bytes: no locked instruction while the process has one thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "storage.hpp"

namespace weft::detail {

/// Holds `word` (0 when free) until the end of the scope; waiters sleep.
class WordLock {
 public:
  explicit WordLock(std::atomic<uint32_t>& word) : word_(word) {
    if (WEFT_SINGLE_THREADED) {
      word_.store(1, std::memory_order_relaxed);
      return;
    }
    uint32_t expected = 0;
    while (!word_.compare_exchange_weak(expected, 1, std::memory_order_acquire)) {
      if (expected != 0) word_.wait(expected, std::memory_order_relaxed);
      expected = 0;
    }
  }
  ~WordLock() {
    word_.store(0, std::memory_order_release);
    if (!WEFT_SINGLE_THREADED) word_.notify_one();
  }
  WordLock(const WordLock&) = delete;

 private:
  std::atomic<uint32_t>& word_;
};

}  // namespace weft::detail
