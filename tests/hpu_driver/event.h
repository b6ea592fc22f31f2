// Events and fences.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "driver.h"

namespace weft::testing::ze {

// Adversarial on purpose: coarse ticks, and few valid bits by default, so that both must be honoured.
constexpr uint64_t timestamp_period_ns = 40;

uint64_t host_nanoseconds();
uint64_t device_ticks();

struct EventPool {
  uint32_t count;
  bool host_visible;
  bool timestamps;
};

class Event {
 public:
  explicit Event(std::shared_ptr<const EventPool> pool) : pool_(std::move(pool)) {}

  const EventPool* pool() const { return pool_.get(); }

  // A queued command will signal this event or wait for it.
  void add_pending();
  void remove_pending();
  int pending() const;

  void signal(bool from_command, uint64_t begin, uint64_t end);
  void reset();
  bool signalled() const;

  // NOT_READY after `timeout` nanoseconds; DEVICE_LOST as soon as the device is lost.
  ze_result_t wait(uint64_t timeout);

  ze_result_t timestamp(ze_kernel_timestamp_result_t* result) const;

 private:
  std::shared_ptr<const EventPool> pool_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool signalled_ = false;
  int pending_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

// Waits until `done`, in slices so that device loss wakes every waiter.
template <class Done>
ze_result_t wait_in_slices(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, uint64_t timeout,
                           Done done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds slice = std::chrono::milliseconds(20);
  Clock::time_point start = Clock::now();
  while (!done()) {
    if (device_lost()) return ZE_RESULT_ERROR_DEVICE_LOST;
    uint64_t elapsed = static_cast<uint64_t>((Clock::now() - start).count());
    if (elapsed >= timeout) return ZE_RESULT_NOT_READY;
    auto remaining = std::chrono::nanoseconds(std::min<uint64_t>(timeout - elapsed, slice.count()));
    changed.wait_for(lock, remaining);
  }
  return device_lost() ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

}  // namespace weft::testing::ze
