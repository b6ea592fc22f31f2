#include "background-inl.hpp"

#include <utility>

#include "../../autograd/mode.hpp"
#include "../../tensor/blocked_signals.hpp"

namespace weft::io {

BackgroundCall::~BackgroundCall() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundCall::start(Callback<void()> call) {
  wait();
  const weft::detail::BlockedSignals blocked;
  thread_ = std::thread([this, call = std::move(call)] {
    const NoGradGuard unrecorded;
    try {
      call();
    } catch (...) {
      failure_ = std::current_exception();
    }
  });
}

void BackgroundCall::wait() {
  if (thread_.joinable()) thread_.join();
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

Tensor host_copy(const Tensor& x) {
  const NoGradGuard unrecorded;
  const Tensor host = x.detach().to(Device());
  return host.shares_storage(x) ? host.clone() : host;
}

}  // namespace weft::io
