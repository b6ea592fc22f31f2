// When an out-of-range index on a device raises its error.
//
// An index out of range is skipped on a device and noted in host memory. The next wait raises IndexError with the op
// and line that queued it.
#pragma once

#include <optional>
#include <utility>

#include "config.hpp"

namespace weft {

namespace detail {
/// Setting of the innermost guard.
extern WEFT_API constinit thread_local std::optional<bool> thread_checks_indices;
}  // namespace detail

/// Whether a call that reads indices on an HPU or a GPU waits for its kernel. If true, the call itself raises
/// IndexError, before anything is written. Otherwise the next synchronization raises it, and the out-of-range elements
/// are skipped. The CPU always checks first. False unless the environment has WEFT_CHECK_INDEX=1.
WEFT_API bool index_checks();

/// Sets it for the calling thread until the end of the scope.
class IndexCheckGuard {
 public:
  explicit IndexCheckGuard(bool on = true) : outer_(std::exchange(detail::thread_checks_indices, on)) {}
  ~IndexCheckGuard() { detail::thread_checks_indices = outer_; }
  IndexCheckGuard(const IndexCheckGuard&) = delete;

 private:
  std::optional<bool> outer_;
};

}  // namespace weft
