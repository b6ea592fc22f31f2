// Short-lived device memory for a kernel's host code.
#pragma once

#include "accelerator.hpp"

namespace weft::portable::host {

/// Device memory for the duration of a kernel's host code: the queue keeps to the order, so it may be freed at once.
class ScratchMemory {
 public:
  ScratchMemory(Accelerator& device, size_t bytes);
  ~ScratchMemory();
  ScratchMemory(const ScratchMemory&) = delete;
  void* data() const { return data_; }

 private:
  Accelerator& device_;
  size_t bytes_;
  CommandNotes* noted_;  ///< whose it is; null for memory of its own
  void* data_;
};

}  // namespace weft::portable::host
