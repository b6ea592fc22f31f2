// Background writing. Internal to io/ and distributed/.
#pragma once

#include <exception>
#include <thread>

#include "../../tensor/callback.hpp"
#include "../../tensor/tensor.hpp"

namespace weft::io {

/// Runs one call at a time on a separate thread.
class BackgroundCall {
 public:
  BackgroundCall() = default;
  ~BackgroundCall();
  BackgroundCall(const BackgroundCall&) = delete;

  /// Waits for the previous call, then starts this one. Rethrows the previous call's exception unless `wait` has; this
  /// call does not start then.
  void start(Callback<void()> call);
  /// Waits for the call; rethrows its exception, once.
  void wait();

 private:
  std::thread thread_;
  std::exception_ptr failure_;
};

/// Returns a copy in host memory that later changes of `x` do not affect.
Tensor host_copy(const Tensor& x);

}  // namespace weft::io
