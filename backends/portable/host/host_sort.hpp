// Pairs of key and position that a device sorts.
#pragma once

#include "scratch_memory.hpp"

namespace weft::portable::host {

/// `lines` lines of `length` pairs, and as much room again, for the duration of a kernel's host code.
class SortPairs {
 public:
  /// Keys differ in their lowest `bits` bits alone.
  SortPairs(Accelerator& device, int64_t lines, int64_t length, int bits = 64);
  void* keys() const { return part(now_); }
  void* order() const { return part(now_ + 1); }
  /// Sorts each line by its keys; equal ones keep their order.
  void sort();

 private:
  void* part(int64_t index) const { return static_cast<char*>(memory_.data()) + index * total_ * 8; }

  Accelerator& device_;
  int64_t total_, length_;
  int bits_;
  ScratchMemory memory_;
  int now_ = 0;  ///< 0 or 2: where the pairs are
};

}  // namespace weft::portable::host
