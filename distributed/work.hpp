// A collective under way.
#pragma once

#include "../tensor/shared.hpp"
#include "../tensor/tensor.hpp"

namespace weft::distributed {

namespace detail {
struct WorkState;
}

/// What an asynchronous function returned. Collectives of one group run in the order of their calls, whether anybody
/// waits or not; what one raises that nobody waits for is lost, but for later calls, which raise it too. The memory
/// that they read or write is kept until then, and may not be written meanwhile. A value; copies are the same work.
class WEFT_API Work {
 public:
  /// It is done, with or without an error; `wait` does not block then.
  bool is_done() const;
  /// Waits, and gives the result: what the synchronous function returns, and undefined for those that return nothing.
  /// Raises what the collective did, each time it is called. Results on a device are copied there by this call.
  Tensor wait() const;

  explicit Work(Shared<detail::WorkState> state) : state_(std::move(state)) {}

 private:
  Shared<detail::WorkState> state_;
};

}  // namespace weft::distributed
