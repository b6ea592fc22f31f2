// Purpose of an allocation, if the allocating code has set it.
#pragma once

#include <cstdint>
#include <utility>

#include "config.hpp"

namespace weft::detail {

enum class MemoryUse : uint8_t { forward, backward, optimizer };

extern WEFT_API constinit thread_local MemoryUse memory_use;

/// Sets the purpose for the calling thread until the end of the scope.
class MemoryUseScope {
 public:
  explicit MemoryUseScope(MemoryUse use) : outer_(std::exchange(memory_use, use)) {}
  ~MemoryUseScope() { memory_use = outer_; }
  MemoryUseScope(const MemoryUseScope&) = delete;

 private:
  MemoryUse outer_;
};

}  // namespace weft::detail
