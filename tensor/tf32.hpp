// TF32: products of float32 matrices with factors rounded to a 10-bit fraction, which is faster on NVIDIA GPUs of
// compute capability 8.0 and later. Off by default.
//
//   const Tf32Guard guard({.matmul = true});
//   train();
#pragma once

#include <optional>
#include <utility>

#include "config.hpp"

namespace weft {

struct Tf32 {
  /// Allows TF32 for float32 matrix products on CUDA. Other dtypes never use it.
  bool matmul = false;
  bool operator==(const Tf32&) const = default;
};

namespace detail {
/// State of the innermost guard.
extern WEFT_API constinit thread_local std::optional<Tf32> thread_tf32;
/// Parses NVIDIA_TF32_OVERRIDE: 0 or 1, else nothing.
WEFT_API std::optional<bool> tf32_override_from(const char* text);
/// The override of this process; reads the environment once.
WEFT_API std::optional<bool> tf32_override();
}  // namespace detail

/// Sets the state of all threads outside of a guard.
WEFT_API void set_tf32(Tf32 state);
/// The state for products that this thread computes, forward or backward. NVIDIA_TF32_OVERRIDE=0 or 1 overrides all
/// settings of the program.
WEFT_API Tf32 tf32_state();

/// Sets the calling thread's state until the end of the scope.
class Tf32Guard {
 public:
  explicit Tf32Guard(Tf32 state) : outer_(std::exchange(detail::thread_tf32, state)) {}
  ~Tf32Guard() { detail::thread_tf32 = outer_; }
  Tf32Guard(const Tf32Guard&) = delete;

 private:
  std::optional<Tf32> outer_;
};

}  // namespace weft
