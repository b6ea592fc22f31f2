// The op that is running and the place in the user's program that called it, as named by errors, warnings, the graph
// and observers.
#pragma once

#include "location.hpp"

namespace weft {

struct CallPlace {
  /// The op that runs, as the graph, profiles and observers name it. Null outside every op.
  const char* op = nullptr;
  Location where = Location::none();
  /// The op that the user called, in which `op` runs, as errors and warnings name it.
  const char* entry = op;
};

namespace detail {
extern WEFT_API constinit thread_local CallPlace current_call;
/// Inside an op, the place that called that op; else `where`.
inline Location place_of(Location where) { return current_call.op != nullptr ? current_call.where : where; }
}  // namespace detail

/// While it lives, this thread runs `op`, called at `where` or, inside another scope, at the place of that scope. The
/// graph keeps the pointer `op`: it is a literal, or lives as long as the graph.
class CallScope {
 public:
  explicit CallScope(const char* op, Location where = {}) : outer_(detail::current_call) {
    const bool outermost = outer_.op == nullptr;
    detail::current_call = {op, outermost ? where : outer_.where, outermost ? op : outer_.entry};
  }
  /// At exactly this place, even inside another scope: for work that was called earlier and runs now.
  explicit CallScope(CallPlace call) : outer_(detail::current_call) { detail::current_call = call; }
  ~CallScope() { detail::current_call = outer_; }
  CallScope(const CallScope&) = delete;

 private:
  CallPlace outer_;
};

/// While it lives, the thread runs the user's code (hooks, observers, handlers), whose ops name their own places.
class OutsideCalls {
 public:
  OutsideCalls() : outer_(detail::current_call) { detail::current_call = {}; }
  ~OutsideCalls() { detail::current_call = outer_; }
  OutsideCalls(const OutsideCalls&) = delete;

 private:
  CallPlace outer_;
};

}  // namespace weft
