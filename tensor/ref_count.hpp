// An intrusive reference count.
//
// Counts skip locked instructions while the process has one thread (`__libc_single_threaded`), as `std::shared_ptr`
// does.
#pragma once

#include <cstdint>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>

#include "atomic.hpp"
#define WEFT_SINGLE_THREADED __libc_single_threaded
#else
#define WEFT_SINGLE_THREADED false
#endif

namespace weft {

/// Uses no locked instructions while the process has one thread, as std::shared_ptr.
class RefCount {
 public:
  explicit RefCount(uint32_t start = 1) : count_(start) {}
  void increment() {
    if (WEFT_SINGLE_THREADED) count_.store(count_.load(MemoryOrder::relaxed) + 1, MemoryOrder::relaxed);
    else count_.fetch_add(1, MemoryOrder::relaxed);
  }
  /// Drops a reference; returns true for the last one. A count of one needs no locked instruction: no other thread can
  /// raise it.
  bool decrement() {
    if (count_.load(MemoryOrder::acquire) == 1) return true;
    return decrement_shared();
  }
  /// As `decrement`, if a weak holder may concurrently raise the count.
  bool decrement_shared() {
    if (WEFT_SINGLE_THREADED) {
      const uint32_t left = count_.load(MemoryOrder::relaxed) - 1;
      count_.store(left, MemoryOrder::relaxed);
      return left == 0;
    }
    return count_.fetch_sub(1, MemoryOrder::acq_rel) == 1;
  }
  /// Raises the count unless it is zero. Returns whether it did.
  bool try_increment() {
    uint32_t n = count_.load(MemoryOrder::relaxed);
    while (n != 0) {
      if (count_.compare_exchange_weak(n, n + 1, MemoryOrder::acq_rel)) return true;
    }
    return false;
  }
  uint32_t value() const { return count_.load(MemoryOrder::acquire); }

 private:
  Atomic<uint32_t> count_;
};

}  // namespace weft
