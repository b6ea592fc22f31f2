#include "detail/device_times.hpp"

#include <chrono>
#include <limits>
#include <utility>

#include "../backends/backend.hpp"
#include "../tensor/error.hpp"

namespace weft::detail {

namespace {

/// Exclusive use of a queue.
struct OwnQueue {
  OwnQueue(Backend& b, int index) : backend(b), queue(b.take_queue(index)) {}
  ~OwnQueue() { backend.return_queue(queue); }
  OwnQueue(const OwnQueue&) = delete;
  Backend& backend;
  Queue& queue;
};

}  // namespace

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

DeviceTimes::Clock DeviceTimes::set_clock(Backend& backend, int index) {
  constexpr int ways = 5;
  const OwnQueue own(backend, index);
  Clock best;
  int64_t shortest = std::numeric_limits<int64_t>::max();
  for (int way = 0; way < ways; ++way) {
    const int64_t before = nanoseconds();
    Shared<Fence> fence = own.queue.record(true);
    fence->wait();
    const int64_t took = nanoseconds() - before;
    if (took >= shortest) continue;
    shortest = took;
    best = {std::move(fence), before + took / 2, true};
  }
  try {
    best.zero->milliseconds_since(*best.zero);
  } catch (const NotImplementedError&) {
    best.runs = false;
  }
  return best;
}

Shared<Fence> DeviceTimes::mark(Device device) {
  Backend* const backend = device.is_cpu() ? nullptr : find_backend(device.type);
  if (backend == nullptr) return {};
  {
    const std::lock_guard lock(mutex_);
    Clock& clock = clocks_[key_of(device)];
    if (!clock.zero) clock = set_clock(*backend, device.index);
    if (!clock.runs) return {};
  }
  Queue* const chosen = chosen_queue(device);
  return (chosen != nullptr ? *chosen : backend->default_queue(device.index)).record(true);
}

int64_t DeviceTimes::time_of(const Fence& mark, int64_t earliest) {
  const std::lock_guard lock(mutex_);
  const Clock& clock = clocks_.at(key_of(mark.queue().device()));
  const auto time = clock.host + static_cast<int64_t>(mark.milliseconds_since(*clock.zero) * 1e6);
  const auto period = static_cast<int64_t>(mark.clock_period() * 1e6);
  if (period <= 0) return time;
  const int64_t missing = earliest - period / 8 - time;  // tolerance for the difference of the two clocks
  return missing <= 0 ? time : time + (missing + period - 1) / period * period;
}

void DeviceTimes::forget() {
  const std::lock_guard lock(mutex_);
  clocks_.clear();
}

}  // namespace weft::detail
