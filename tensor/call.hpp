// The running op and the source location of its call, used by errors, warnings, the graph and observers.
//
// A nested op keeps its own name for nodes, profiles and observers, and has the location of the outer call. Errors
// and warnings name the op that the user called. Backward runs with the name and location of the node; hooks,
// handlers and observers run outside (`OutsideCalls`). An unused parameter `where` is a compiler warning, which
// finds an op without a scope.
#pragma once

#include "location.hpp"

namespace weft {

struct CallPlace {
  /// The running op, as the graph, profiles and observers name it. Null outside of ops.
  const char* op = nullptr;
  Location where = Location::none();
  /// The op that the user called and that runs `op`, as errors and warnings name it.
  const char* entry = op;
};

namespace detail {
extern WEFT_API constinit thread_local CallPlace current_call;
/// Inside an op, the location of the call of that op; otherwise `where`.
inline Location place_of(Location where) { return current_call.op != nullptr ? current_call.where : where; }
}  // namespace detail

/// Marks `op` as running on this thread until destruction. The location is `where`, or that of the enclosing scope. The
/// graph stores the pointer `op`, so it must be a literal or outlive the graph.
class CallScope {
 public:
  explicit CallScope(const char* op, Location where = {}) : outer_(detail::current_call) {
    const bool outermost = outer_.op == nullptr;
    detail::current_call = {op, outermost ? where : outer_.where, outermost ? op : outer_.entry};
  }
  /// Uses exactly this op and location, even inside another scope: for work that was queued by an earlier call.
  explicit CallScope(CallPlace call) : outer_(detail::current_call) { detail::current_call = call; }
  ~CallScope() { detail::current_call = outer_; }
  CallScope(const CallScope&) = delete;

 private:
  CallPlace outer_;
};

/// Marks the thread as running user code (hooks, observers, handlers) until destruction: ops called there report their
/// own locations.
class OutsideCalls {
 public:
  OutsideCalls() : outer_(detail::current_call) { detail::current_call = {}; }
  ~OutsideCalls() { detail::current_call = outer_; }
  OutsideCalls(const OutsideCalls&) = delete;

 private:
  CallPlace outer_;
};

}  // namespace weft
