// Writing while a program goes on. Internal to io/ and distributed/.
#pragma once

#include <exception>
#include <thread>

#include "../../tensor/callback.hpp"
#include "../../tensor/tensor.hpp"

namespace weft::io {

/// One call at a time, on a thread of its own.
class BackgroundCall {
 public:
  BackgroundCall() = default;
  ~BackgroundCall();
  BackgroundCall(const BackgroundCall&) = delete;

  /// Behind `wait`.
  void start(Callback<void()> call);
  /// Until the call is over; raises what it threw, once.
  void wait();

 private:
  std::thread thread_;
  std::exception_ptr failure_;
};

/// In the host's memory, and of its own, so that `x` may change.
Tensor host_copy(const Tensor& x);

}  // namespace weft::io
