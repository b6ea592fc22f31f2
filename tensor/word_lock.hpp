// A lock of four bytes: no locked instruction while the process has one thread.
#pragma once

#include <cstdint>

#include "atomic.hpp"
#include "storage.hpp"

namespace weft::detail {

/// Locks `word` (0 when free) until the end of the scope; waiters sleep.
class WordLock {
 public:
  explicit WordLock(Atomic<uint32_t>& word) : word_(word) {
    if (WEFT_SINGLE_THREADED) {
      word_.store(1, MemoryOrder::relaxed);
      return;
    }
    uint32_t expected = 0;
    while (!word_.compare_exchange_weak(expected, 1, MemoryOrder::acquire)) {
      if (expected != 0) word_.wait(expected);
      expected = 0;
    }
  }
  ~WordLock() {
    word_.store(0, MemoryOrder::release);
    if (!WEFT_SINGLE_THREADED) word_.notify_one();
  }
  WordLock(const WordLock&) = delete;

 private:
  Atomic<uint32_t>& word_;
};

}  // namespace weft::detail
