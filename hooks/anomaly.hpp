// Finding the op that made the first NaN or infinity.
//
//   AnomalyGuard guard;          // around forward and backward; {.forward = false} around a backward alone is cheaper
//   loss = model(x);             // NonFiniteError names op, line, cause and remedy, and below them values and the
//   loss.backward();             // path from the loss
//
// WEFT_CHECK_NAN=1 in the environment checks every kernel of the process, forward and backward, as long as it runs.
#pragma once

#include <string>

#include "../tensor/error.hpp"
#include "../tensor/pimpl.hpp"

namespace weft {

struct AnomalyOptions {
  /// Checks every gradient that a node of this thread's backward passes sends on.
  bool backward = true;
  /// Checks the output of every kernel that this thread calls, for NaN where no input is NaN and for infinities where
  /// every input is finite. Filling with a value is not checked, so masks of -inf are fine.
  bool forward = true;
  /// The folder in which the first of them leaves its reproduction (io/replay.hpp): the op's call, or its kernel's,
  /// with tensors of 64 MB at most, and a program of a few lines; `./weft replay FOLDER` runs it. An earlier one is
  /// replaced, a folder of something else is not. Empty: none.
  std::string repro = "repro";
};

/// While one lives, the first NaN or infinity on this thread raises NonFiniteError: three lines with the op, the cause,
/// and the remedy with the op's place, and figures below. A device's values are copied to the
/// host for the check, which waits for the device.
class WEFT_API AnomalyGuard {
 public:
  explicit AnomalyGuard(AnomalyOptions options = {});
  ~AnomalyGuard();
  AnomalyGuard(const AnomalyGuard&) = delete;

 private:
  struct State;
  detail::Pimpl<State> state_;
};

}  // namespace weft
