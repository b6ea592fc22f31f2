// Injected allocation failures: in operator new, and in system requests of the library's allocators.
#pragma once

#include <cstdint>

namespace weft::faults {

/// Which requests find no memory, counted from the moment a fault is set.
struct Fault {
  enum Kind : uint8_t {
    once,   ///< the k-th alone
    after,  ///< the k-th and all that follow
    every,  ///< each k-th
  };
  Kind kind = once;
  int64_t k = 1;
};

/// Requests fail until the end of the scope, on every thread. Caches are emptied before, so that a request is one.
class FailingMemory {
 public:
  explicit FailingMemory(Fault fault);
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;

  /// How many requests failed so far.
  int64_t failures() const;
  /// How many there were.
  int64_t requests() const;
};

/// Requests of this thread succeed in the scope, for the test's own data.
class Served {
 public:
  Served();
  ~Served();
  Served(const Served&) = delete;
};

/// False where a block was freed twice; then nothing can be trusted any more.
bool free_lists_are_sound();

/// Blocks from operator new that nobody deleted yet.
int64_t blocks_in_use();

}  // namespace weft::faults
