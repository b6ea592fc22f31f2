// Observes accesses of a program to gradients outside of ops. Not public.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "../tensor/call.hpp"
#include "hooks.hpp"
#include "mode.hpp"

namespace weft::detail {

/// Parameters of one step of an optimizer that share their options.
struct SteppedGroup {
  std::span<const Tensor> parameters;
  double rate = 0, decay = 0;
  /// Weights shrink by rate · decay; else decay · weight is added to the gradient.
  bool decoupled = false;
};

/// Receives the events of this thread while it is installed. Its own computations must be inside an UnwatchedScope.
class WEFT_API ProgramWatch {
 public:
  virtual ~ProgramWatch();
  /// The program itself called `detach`, or read x's numbers: then `result` is undefined. The place is the running
  /// call's.
  virtual void on_detach(const Tensor& /*x*/, const Tensor& /*result*/) {}
  /// A tensor was converted by the program itself, and the graph records it.
  virtual void converted(const Tensor& /*x*/, const Tensor& /*result*/) {}
  /// The program, not an op, set the thread's mode.
  virtual void mode_set(GradMode) {}
  /// A loss of the library compares predictions with targets.
  virtual void compared(const Tensor& /*predictions*/, const Tensor& /*targets*/) {}
  /// Called before a gradient hook runs, and with the new gradient if the hook changed it.
  virtual void hook_begins(const Hook&, const Tensor& /*gradient*/) {}
  virtual void hook_changed(const Hook&, const Node&, const Tensor& /*gradient*/) {}
  /// Gradients of this joint norm were brought to a largest one.
  virtual void clipped(double /*norm*/, double /*limit*/, Location) {}
  virtual void rate_set(double /*rate*/, Location) {}
  /// An optimizer is about to step.
  virtual void stepping(const char* /*optimizer*/, const SteppedGroup&, Location) {}
};

/// This thread's, or null.
extern WEFT_API constinit thread_local ProgramWatch* program_watch;
/// How many UnwatchedScopes this thread has.
extern WEFT_API constinit thread_local int unwatched_scopes;

/// Whether the program itself made the running call, by the op's function or by its name; `outer` is the op that ran
/// before it began.
inline bool is_called_by_program(const char* outer) {
  return outer == nullptr || (outer == current_call.entry && std::string_view(outer) == current_call.op);
}

/// For code that reads the elements of x without an op, on behalf of the program.
WEFT_API void tell_of_reading(const Tensor& x, const char* op, Location where);

/// While it lives, this thread's doings are not told: they are no program's.
class UnwatchedScope {
 public:
  UnwatchedScope() : outer_(std::exchange(program_watch, nullptr)) { ++unwatched_scopes; }
  ~UnwatchedScope() { program_watch = outer_, --unwatched_scopes; }
  UnwatchedScope(const UnwatchedScope&) = delete;

 private:
  ProgramWatch* outer_;
};

}  // namespace weft::detail
