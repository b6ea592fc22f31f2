#include "host_calls.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include "queue.hpp"
#include "../../tensor/error.hpp"

namespace weft::hpu {

namespace {
constexpr std::chrono::microseconds poll_interval{50};
}  // namespace

void HostCalls::add(Call call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  changed_.notify_all();
}

void HostCalls::run_ready(std::unique_lock<std::mutex>& lock) {
  for (auto next = calls_.begin(); next != calls_.end();) {
    bool ready = false;
    try {
      ready = next->ready->reached();
    } catch (const DeviceError&) {  // the queue's next wait tells
      next = calls_.erase(next);
      continue;
    }
    if (!ready) {
      ++next;
      continue;
    }
    std::list<Call> mine;
    mine.splice(mine.begin(), calls_, next++);
    lock.unlock();
    auto& queue = static_cast<HpuQueue&>(mine.front().ready->queue());
    try {
      mine.front().function();
    } catch (...) {
      queue.keep_failure(std::current_exception());
    }
    const Shared<HpuFence> done = mine.front().done;
    mine.clear();  // what the function holds goes before the queue moves on
    try {
      done->signal();
    } catch (const DeviceError&) {
    }
    lock.lock();
    next = calls_.begin();
  }
}

void HostCalls::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (calls_.empty()) changed_.wait(lock);
    else changed_.wait_for(lock, poll_interval);
    run_ready(lock);
  }
}

void HostCalls::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace weft::hpu
