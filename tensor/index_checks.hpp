// When an index out of range on a device is told.
#pragma once

#include <optional>
#include <utility>

#include "config.hpp"

namespace weft {

namespace detail {
/// That of the innermost guard.
extern WEFT_API constinit thread_local std::optional<bool> thread_checks_indices;
}  // namespace detail

/// Whether each kernel that reads indices on an HPU or a GPU is waited for, so that IndexError comes from the call
/// itself and before anything is written; otherwise it comes from the next wait, and the element is left out. The CPU
/// always checks first. WEFT_CHECK_INDEX=1 in the environment says so for the whole process.
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
