// Whether ops record: one thread-local word and the guards that set it.
#pragma once

#include "../tensor/grad_mode.hpp"

namespace weft {

/// Sets the calling thread's mode; the guards below restore it.
WEFT_API void set_grad_mode(GradMode mode);

/// Whether a checkpoint recomputes its function. Side effects, such as updates of running statistics, happen in the
/// first computation only.
WEFT_API bool recomputing();

namespace detail {
class WEFT_API RecomputingScope {
 public:
  RecomputingScope();
  ~RecomputingScope();
  RecomputingScope(const RecomputingScope&) = delete;

 private:
  bool outer_;
};
}  // namespace detail

/// Sets the thread's mode until the end of the scope.
class GradModeGuard {
 public:
  explicit GradModeGuard(GradMode mode) : saved_(grad_mode()) { set_grad_mode(mode); }
  ~GradModeGuard() { set_grad_mode(saved_); }
  GradModeGuard(const GradModeGuard&) = delete;

 private:
  GradMode saved_;
};

/// No recording in this scope: results require no gradient.
class NoGradGuard : GradModeGuard {
 public:
  NoGradGuard() : GradModeGuard({.enabled = false, .inference = grad_mode().inference}) {}
};
/// Recording again, inside a NoGradGuard or InferenceGuard.
class EnableGradGuard : GradModeGuard {
 public:
  EnableGradGuard() : GradModeGuard({.enabled = true, .inference = false}) {}
};
/// No recording, and tensors made here can never enter a graph, so their views need no bookkeeping.
class InferenceGuard : GradModeGuard {
 public:
  InferenceGuard() : GradModeGuard({.enabled = false, .inference = true}) {}
};

}  // namespace weft
