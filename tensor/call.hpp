// The op that runs and the place in the user's program that called it: what errors, warnings, the graph and whoever
// watches name.
#pragma once

#include "location.hpp"

namespace weft {

struct CallPlace {
  /// Null outside of every op.
  const char* op = nullptr;
  Location where = Location::none();
};

namespace detail {
extern WEFT_API constinit thread_local CallPlace current_call;
/// Inside an op that calls others all of them name the place that called it, else their own.
inline Location place_of(Location where) { return current_call.op != nullptr ? current_call.where : where; }
}  // namespace detail

/// While it lives, this thread is in `op`, called at `where`, or, inside another scope, at its place; other ops are
/// called as anybody would. The graph keeps the pointer: `op` is a literal, or lives as long.
class CallScope {
 public:
  explicit CallScope(const char* op, Location where = {}) : outer_(detail::current_call) {
    detail::current_call = {op, detail::place_of(where)};
  }
  /// At exactly this place, inside whatever scope: for what was called before and runs now.
  explicit CallScope(CallPlace call) : outer_(detail::current_call) { detail::current_call = call; }
  ~CallScope() { detail::current_call = outer_; }
  CallScope(const CallScope&) = delete;

 private:
  CallPlace outer_;
};

/// While it lives, the thread runs code of the user's, which has places of its own: hooks, observers, handlers.
class OutsideCalls {
 public:
  OutsideCalls() : outer_(detail::current_call) { detail::current_call = {}; }
  ~OutsideCalls() { detail::current_call = outer_; }
  OutsideCalls(const OutsideCalls&) = delete;

 private:
  CallPlace outer_;
};

}  // namespace weft
