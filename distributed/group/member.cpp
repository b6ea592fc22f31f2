#include "../detail/member.hpp"

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../backends/stream.hpp"
#include "../../tensor/blocked_signals.hpp"
#include "../../tensor/threads.hpp"
#include "../error.hpp"

namespace weft::distributed::detail {

std::string one_line(const char* what) {
  std::string line = what;
  std::replace(line.begin(), line.end(), '\n', ';');
  return line;
}

struct Member::Queued final : WorkState {
  explicit Queued(Operation operation_) : operation(std::move(operation_)) {}

  bool is_done() override { return done.load(std::memory_order_acquire); }
  Tensor wait() override {
    done.wait(false, std::memory_order_acquire);
    if (error != nullptr) std::rethrow_exception(error);
    const std::lock_guard once(finishing);
    if (operation.finish) {
      result = operation.finish();
      operation.finish = nullptr;
    }
    return result;
  }

  Operation operation;
  std::atomic<bool> done{false};
  std::exception_ptr error;
  std::mutex finishing;
  Tensor result;
};

Member::Member(Shared<Wire> wire, std::vector<int> ranks, int rank, double timeout)
    : wire_(std::move(wire)), ranks_(std::move(ranks)), rank_(rank), timeout_(timeout) {}

Member::~Member() {
  if (thread_.get_id() == std::this_thread::get_id()) {  // the finished operation held the last reference
    *gone_ = true;
    thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Clock::time_point Member::deadline() const {
  constexpr double years = 1e8;  // a clock's time_point can still add this
  const std::chrono::duration<double> wait(std::min(timeout(), years));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

void Member::check_member() const {
  if (contains_me()) return;
  raise<ValueError>({.problem = "this rank does not belong to the group",
                     .remedy = "call group.contains_me() before its collectives"});
}

void Member::check_rank(int rank) const {
  if (rank >= 0 && rank < size()) return;
  raise<IndexError>({.problem = fmt::format("the group of {} ranks has no rank {}", size(), rank)});
}

void Member::act(Operation& operation) {
  operation.call.number = calls_.fetch_add(1, std::memory_order_relaxed);
  const CallScope scope(operation.call.place);
  Wire& wire = operation.wire != nullptr ? *operation.wire : *wire_;
  waiting(operation.memory, [&](Clock::time_point deadline) { operation.act(wire, operation.call, deadline); });
}

const DeviceWire* Member::device_wire(Device device, const Shared<Member>& self) {
  if (device.is_cpu() || size() == 1) return nullptr;
  const ConnectDevices& connect = connects_devices(device.type);
  if (!connect) return nullptr;
  const auto [found, is_new] = device_wires_.try_emplace(device.type);
  DeviceWire& devices = found->second;
  if (is_new) {
    devices.device = device;
    Operation operation;
    operation.call.place = weft::detail::current_call;
    operation.call.on_device = true;
    operation.act = [&](Wire&, const CallRecord& call, Clock::time_point deadline) {
      devices.wire = connect(device, wire_, rank_, size(), call, deadline);
    };
    perform(operation, self);
  }
  return devices.wire != nullptr ? &devices : nullptr;
}

Tensor Member::perform(Operation& operation, const Shared<Member>& self) {
  if (pending_.load(std::memory_order_acquire) != 0) return start(std::move(operation), self)->wait();
  act(operation);
  return operation.finish ? operation.finish() : Tensor();
}

Shared<WorkState> Member::start(Operation operation, const Shared<Member>& self) {
  Shared<Queued> work = Shared<Queued>::make(std::move(operation));
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      const weft::detail::BlockedSignals blocked;
      thread_ = std::thread([this] { this->work(); });
    }
    pending_.fetch_add(1, std::memory_order_relaxed);
    wire_->count_work(1);
    queue_.emplace_back(work, self);
  }
  changed_.notify_one();
  return work;
}

void Member::work() {
  const NoGradGuard unrecorded;
  const OneThreadGuard alone;
  bool gone = false;
  for (;;) {
    Shared<Queued> work;
    Shared<Member> self;
    {
      std::unique_lock lock(mutex_);
      gone_ = &gone;
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      std::tie(work, self) = std::move(queue_.front());
      queue_.pop_front();
    }
    try {
      weft::detail::current_streams = work->operation.streams;
      act(work->operation);
    } catch (...) {
      work->error = std::current_exception();
    }
    work->operation.memory.clear();
    pending_.fetch_sub(1, std::memory_order_release);
    work->done.store(true, std::memory_order_release);
    work->done.notify_all();
    work = nullptr;
    const Shared<Wire> wire = wire_;
    self = nullptr;
    wire->count_work(-1);
    if (gone) return;
  }
}

std::vector<int64_t> tell_all(const Shared<Member>& member, std::span<const int64_t> to_each) {
  member->check_member();
  const int ranks = member->size();
  const Dims shape = {int64_t{ranks}};
  Tensor sent = Tensor::adopt(weft::detail::new_tensor(shape, DType::i64, Device()));
  Tensor received = Tensor::adopt(weft::detail::new_tensor(shape, DType::i64, Device()));
  int64_t* const out = static_cast<int64_t*>(sent.data_ptr());
  const int64_t* const in = static_cast<const int64_t*>(received.data_ptr());
  for (int r = 0; r < ranks; ++r) out[r] = to_each[to_each.size() == 1 ? 0 : static_cast<size_t>(r)];
  Operation operation;
  operation.call.place = weft::detail::current_call;
  operation.memory = {sent, received};
  operation.act = [sent, received, ranks](Wire& wire, const CallRecord& call, Clock::time_point deadline) {
    std::vector<Sent> sends;
    std::vector<Received> receives;
    for (int r = 0; r < ranks; ++r) {
      sends.push_back({static_cast<int64_t*>(sent.data_ptr()) + r, sizeof(int64_t)});
      receives.push_back({static_cast<int64_t*>(received.data_ptr()) + r, sizeof(int64_t)});
    }
    wire.exchange(call, sends, receives, deadline);
  };
  member->perform(operation, member);
  return {in, in + ranks};
}

}  // namespace weft::distributed::detail
