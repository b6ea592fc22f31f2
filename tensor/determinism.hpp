// Deterministic mode: what could differ from run to run is refused.
//
//   const DeterministicGuard guard;
//   train();
//
// Weft's own kernels need no mode: each gives the same bits in every run, on the CPU for any number of threads, too
// (docs/settings.md). The mode is for the rest: a registered op that says of itself that it is not deterministic raises
// NotImplementedError, and what `empty` makes is NaN, or the largest integer, so that a program which reads it before
// it was written does not depend on what was there.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "atomic.hpp"
#include "config.hpp"

namespace weft {

/// `warn`: as `on`, with a warning in place of the error.
enum class Determinism : uint8_t { off, warn, on };

namespace detail {
extern WEFT_API Atomic<Determinism> process_determinism;
/// That of the innermost guard.
extern WEFT_API constinit thread_local std::optional<Determinism> thread_determinism;
/// For an op that is not deterministic, from inside it: raises or warns, as the mode says.
WEFT_API void refuse_nondeterministic();
}  // namespace detail

/// Sets the mode of all threads that are in no guard. It begins as WEFT_DETERMINISTIC says.
inline void set_deterministic(Determinism mode) { detail::process_determinism.store(mode, MemoryOrder::relaxed); }
/// The calling thread's mode.
inline Determinism deterministic() {
  return detail::thread_determinism ? *detail::thread_determinism
                                    : detail::process_determinism.load(MemoryOrder::relaxed);
}

/// Sets the calling thread's mode until the end of the scope; a backward that it starts has the mode, too.
class DeterministicGuard {
 public:
  explicit DeterministicGuard(Determinism mode = Determinism::on)
      : outer_(std::exchange(detail::thread_determinism, mode)) {}
  ~DeterministicGuard() { detail::thread_determinism = outer_; }
  DeterministicGuard(const DeterministicGuard&) = delete;

 private:
  std::optional<Determinism> outer_;
};

}  // namespace weft
