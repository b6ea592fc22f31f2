// Deterministic mode: raises errors for ops whose results could differ from run to run.
//
//   const DeterministicGuard guard;
//   train();
//
// Weft's own kernels are always deterministic: each returns the same bits in every run, on the CPU also for any number
// of threads (docs/settings.md). The mode affects two other things. Registered ops that declare themselves not
// deterministic raise NotImplementedError. `empty` fills its result with NaN, or with the largest integer, so that a
// program that reads uninitialized elements gets the same result in every run.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "atomic.hpp"
#include "config.hpp"

namespace weft {

/// `warn`: as `on`, but warns instead of raising.
enum class Determinism : uint8_t { off, warn, on };

namespace detail {
extern WEFT_API Atomic<Determinism> process_determinism;
/// Mode of the innermost guard.
extern WEFT_API constinit thread_local std::optional<Determinism> thread_determinism;
/// Called inside an op that is not deterministic: raises or warns, depending on the mode.
WEFT_API void refuse_nondeterministic();
}  // namespace detail

/// Sets the mode of all threads outside of a guard. The initial mode is read from WEFT_DETERMINISTIC.
inline void set_deterministic(Determinism mode) { detail::process_determinism.store(mode, MemoryOrder::relaxed); }
/// The calling thread's mode.
inline Determinism deterministic() {
  return detail::thread_determinism ? *detail::thread_determinism
                                    : detail::process_determinism.load(MemoryOrder::relaxed);
}

/// Sets the calling thread's mode until the end of the scope. A backward that it starts runs in the same mode.
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
