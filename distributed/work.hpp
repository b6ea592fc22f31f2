// Handles of asynchronous collectives.
#pragma once

#include "../tensor/shared.hpp"
#include "../tensor/tensor.hpp"

namespace weft::distributed {

namespace detail {
struct WorkState;
}

/// Returned by asynchronous functions. Collectives of one group run in the order of their calls, whether or not anyone
/// waits. An error that no wait raises is lost, except that later calls raise it, too. Tensors that the collective
/// reads or writes are kept alive until it is done, and must not be written before. A value; copies are the same work.
class WEFT_API Work {
 public:
  /// Whether it is done, with or without an error; `wait` then does not block.
  bool is_done() const;
  /// Waits and returns the result of the synchronous function; undefined for functions that return nothing. Raises the
  /// collective's error on every call. Results on a device are copied there by this call.
  Tensor wait() const;

  explicit Work(Shared<detail::WorkState> state) : state_(std::move(state)) {}

 private:
  Shared<detail::WorkState> state_;
};

}  // namespace weft::distributed
