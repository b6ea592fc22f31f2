// Point-to-point messages.
#include <algorithm>
#include <exception>
#include <mutex>

#include <fmt/format.h>

#include "../../autograd/node.hpp"
#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../collectives.hpp"
#include "../detail/begin.hpp"
#include "../detail/gradients.hpp"

namespace weft::distributed {

namespace {

using detail::Member;
using detail::Wire;

constexpr int tags = 4096;

void check_peer(const Group& group, int other, int tag) {
  weft::detail::refuse_recording("ranks exchange elements");
  group.member().check_member();
  group.member().check_rank(other);
  if (other == group.rank()) raise<ValueError>({.problem = "a rank cannot send to itself"});
  if (tag < 0 || tag >= tags) raise<ValueError>({.problem = fmt::format("tag {} is not below {}", tag, tags)});
}

Wire::Header header_of(const Tensor& x) {
  Wire::Header header{};
  header.dtype = x.dtype();
  header.rank = static_cast<uint8_t>(x.dim());
  std::copy_n(x.sizes().data(), x.dim(), header.sizes);
  return header;
}

/// A message, which proceeds even if no one waits for it.
struct TransferWork final : detail::WorkState {
  TransferWork(const Group& group, Tensor host_, Callback<Tensor()> finish_)
      : member(group.shared_member()),
        place(weft::detail::current_call),
        host(std::move(host_)),
        finish(std::move(finish_)) {}

  bool is_done() override {
    const std::lock_guard lock(mutex);
    if (!done) attempt([&] { done = transfer->test(); });
    return done || error != nullptr;
  }
  Tensor wait() override {
    const std::lock_guard lock(mutex);
    if (!done && error == nullptr) {
      attempt([&] {
        member->waiting({host}, [&](detail::Clock::time_point deadline) { transfer->wait(deadline); });
        done = true;
      });
    }
    if (error != nullptr) std::rethrow_exception(error);
    if (finish) {
      result = finish();
      finish = nullptr;
    }
    return result;
  }

  /// Stores an error, so that each wait raises it.
  template <class Act>
  void attempt(Act act) {
    const CallScope scope(place);
    try {
      act();
    } catch (...) {
      error = std::current_exception();
    }
  }

  const Shared<Member> member;
  const CallPlace place;
  const Tensor host;
  std::mutex mutex;
  Callback<Tensor()> finish;
  std::unique_ptr<Wire::Transfer> transfer;
  bool done = false;
  std::exception_ptr error;
  Tensor result;
};

Shared<TransferWork> begin_send(const Tensor& x, int to, const Group& group, int tag) {
  check_peer(group, to, tag);
  const Tensor host = detail::on_host(checked(x));
  Shared<TransferWork> work = Shared<TransferWork>::make(group, host, nullptr);
  work->transfer = group.member().wire().send(work->place, to, tag, header_of(host),
                                              {host.data_ptr(), static_cast<size_t>(host.nbytes())});
  return work;
}

Shared<TransferWork> begin_receive(const Tensor& x, int from, const Group& group, int tag) {
  check_peer(group, from, tag);
  check_writable(checked(x));
  if (should_record(x)) {
    raise<AutogradError>(
        {.problem = "a tensor that requires a gradient cannot be written by other ranks", .remedy = "pass x.detach()"});
  }
  const bool direct = x.device().is_cpu() && x.is_contiguous();
  const Tensor host = detail::on_host(x);
  note_write(x);
  Shared<TransferWork> work = Shared<TransferWork>::make(group, host, [x, host, direct] {
    const NoGradGuard unrecorded;
    if (!direct) x.copy_(host);
    return x;
  });
  work->transfer = group.member().wire().receive(work->place, from, tag, header_of(host),
                                                 {host.data_ptr(), static_cast<size_t>(host.nbytes())});
  return work;
}

}  // namespace

void send(const Tensor& x, int to, const Group& group, int tag, Location where) {
  const CallScope call("send", where);
  begin_send(x, to, group, tag)->wait();
}

namespace {

/// Second derivatives are refused: the other rank may have no loss that depends on this gradient, and would never send.
void check_first_order() {
  if (recording()) raise<AutogradError>({.problem = "a message's gradient is not differentiated again"});
}

struct SendBackward {
  Group group;
  int to, tag;
  Device device;
  detail::InOrder order = {};
  Tensor operator()(Tensor&&) {
    check_first_order();
    return receive(to, group, tag).to(device);
  }
};
struct ReceiveBackward {
  Group group;
  int from, tag;
  detail::InOrder order = {};
  void operator()(Node&, Tensor* incoming, Tensor*) {
    check_first_order();
    send(incoming[0], from, group, tag);
  }
};

}  // namespace

Tensor send_with_gradient(const Tensor& x, int to, const Group& group, int tag, Location where) {
  const CallScope call("send_with_gradient", where);
  if (!is_floating(checked(x).dtype())) {
    raise<DTypeError>({.problem = fmt::format("{} has no gradient", name(x.dtype())), .remedy = "send() it"});
  }
  begin_send(x.detach(), to, group, tag)->wait();
  const Tensor sent = zeros({}, {x.dtype(), x.device()});
  if (!should_record(x)) return sent;
  record(sent, SendBackward{group, to, tag, x.device()}, x);
  detail::order_behind_last(sent);
  return sent;
}

Tensor receive_with_gradient(int from, const Group& group, int tag, Location where) {
  const CallScope call("receive_with_gradient", where);
  const Tensor x = receive(from, group, tag);
  if (!is_floating(x.dtype())) {
    raise<DTypeError>({.problem = fmt::format("{} has no gradient", name(x.dtype())), .remedy = "receive() it"});
  }
  if (!recording()) return x;
  record(x, ReceiveBackward{group, from, tag});
  detail::order_behind_last(x);
  return x;
}

Work send_async(const Tensor& x, int to, const Group& group, int tag, Location where) {
  const CallScope call("send", where);
  return Work(begin_send(x, to, group, tag));
}

Tensor receive(int from, const Group& group, int tag, Location where) {
  const CallScope call("receive", where);
  check_peer(group, from, tag);
  const Member& member = group.member();
  const Wire::Header header = member.waiting({}, [&](detail::Clock::time_point deadline) {
    return member.wire().peek(weft::detail::current_call, from, tag, deadline);
  });
  const NoGradGuard unrecorded;
  const Tensor x = make({header.sizes, header.rank}, header.dtype, Device());
  begin_receive(x, from, group, tag)->wait();
  return x;
}
const Tensor& receive_(const Tensor& x, int from, const Group& group, int tag, Location where) {
  const CallScope call("receive_", where);
  begin_receive(x, from, group, tag)->wait();
  return x;
}
Work receive_async_(const Tensor& x, int from, const Group& group, int tag, Location where) {
  const CallScope call("receive_", where);
  return Work(begin_receive(x, from, group, tag));
}

}  // namespace weft::distributed
