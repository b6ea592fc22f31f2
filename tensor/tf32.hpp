// TF32: products of float32 matrices whose factors are rounded to 10 bits of fraction, faster on NVIDIA's GPUs from
// compute capability 8.0 on. Off unless it is switched on.
//
//   const Tf32Guard guard({.matmul = true});
//   train();
#pragma once

#include <optional>
#include <utility>

#include "config.hpp"

namespace weft {

struct Tf32 {
  /// Matrix products of float32 on CUDA; those of other dtypes never.
  bool matmul = false;
  bool operator==(const Tf32&) const = default;
};

namespace detail {
/// That of the innermost guard.
extern WEFT_API constinit thread_local std::optional<Tf32> thread_tf32;
/// What NVIDIA_TF32_OVERRIDE says: 0 or 1, else nothing.
WEFT_API std::optional<bool> tf32_override_from(const char* text);
/// Of this process: the environment is read once.
WEFT_API std::optional<bool> tf32_override();
}  // namespace detail

/// Sets the state of all threads that are in no guard.
WEFT_API void set_tf32(Tf32 state);
/// What holds for products that this thread computes now, forward or backward: NVIDIA_TF32_OVERRIDE=0 or 1 wins over
/// all that a program says.
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
