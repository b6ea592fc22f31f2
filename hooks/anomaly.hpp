// Finds the op that produced the first NaN or infinity.
//
//   AnomalyGuard guard;          // around forward and backward; {.forward = false} around only a backward is cheaper
//   loss = model(x);             // NonFiniteError names op, line, cause and remedy, then values and the
//   loss.backward();             // path from the loss
//
// WEFT_CHECK_NAN=1 in the environment checks every kernel of the whole process, forward and backward.
#pragma once

#include <string>

#include "../tensor/error.hpp"
#include "../tensor/pimpl.hpp"

namespace weft {

struct AnomalyOptions {
  /// Checks every gradient that a node sends on in this thread's backward passes.
  bool backward = true;
  /// Checks the output of every kernel that this thread calls: for NaN if no input is NaN, and for infinities if all
  /// inputs are finite. Filling with a value is not checked, so masks of -inf are fine.
  bool forward = true;
  /// Folder for the reproduction of the first fault (io/replay.hpp): the call of the op or its kernel, with at most 64
  /// MB of tensors, and a program of a few lines; `./weft replay FOLDER` runs it. An earlier reproduction is replaced;
  /// a folder with other contents is not. Empty: no reproduction.
  std::string repro = "repro";
};

/// While one exists, the first NaN or infinity on this thread raises NonFiniteError: three lines with the op, the
/// cause, and the remedy with the op's location, followed by values. Device values are copied to the host for the
/// check, which synchronises with the device.
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
