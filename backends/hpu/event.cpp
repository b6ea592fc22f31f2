#include "event.hpp"

#include "device.hpp"
#include "queue.hpp"

namespace weft::hpu {

namespace {
/// The driver is asked about the device's health so often while the host waits.
constexpr uint64_t wait_slice_ns = 50'000'000;
}  // namespace

void EventPool::grow() {
  ze_event_pool_desc_t description = {};
  description.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC;
  description.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE;
  if (timed_) description.flags |= ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP;
  description.count = pool_size;
  pools_.reserve(pools_.size() + 1);
  all_.reserve(all_.size() + pool_size);
  fresh_.reserve(all_.size() + pool_size);
  used_.reserve(all_.size() + pool_size);  // so that events can always be put back
  ze_event_pool_handle_t pool = nullptr;
  WEFT_ZE(device_, zeEventPoolCreate, context_, &description, 0, nullptr, &pool);  // for all devices of the context
  pools_.push_back(pool);
  for (uint32_t i = 0; i < pool_size; ++i) {
    ze_event_desc_t event = {};
    event.stype = ZE_STRUCTURE_TYPE_EVENT_DESC;
    event.index = i;
    event.signal = ZE_EVENT_SCOPE_FLAG_HOST;
    event.wait = ZE_EVENT_SCOPE_FLAG_HOST;
    ze_event_handle_t handle = nullptr;
    WEFT_ZE(device_, zeEventCreate, pool, &event, &handle);
    all_.push_back(handle);
    fresh_.push_back(handle);
  }
}

/// Those that were signalled are as new once they are reset.
void EventPool::sweep() {
  std::erase_if(used_, [&](ze_event_handle_t event) {
    if (api().zeEventQueryStatus(event) != ZE_RESULT_SUCCESS) return false;
    if (api().zeEventHostReset(event) != ZE_RESULT_SUCCESS) return false;
    fresh_.push_back(event);
    return true;
  });
}

ze_event_handle_t EventPool::take() {
  const std::lock_guard lock(mutex_);
  if (fresh_.empty()) sweep();
  if (fresh_.empty()) grow();
  const ze_event_handle_t event = fresh_.back();
  fresh_.pop_back();
  return event;
}

void EventPool::put_back(ze_event_handle_t event) noexcept {
  const std::lock_guard lock(mutex_);
  if (!closed_) used_.push_back(event);
}

void EventPool::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (ze_event_handle_t event : all_) api().zeEventDestroy(event);
  for (ze_event_pool_handle_t pool : pools_) api().zeEventPoolDestroy(pool);
}

HpuFence::HpuFence(HpuDevice& device, HpuQueue& queue, bool timed)
    : device_(device), queue_(queue), pool_(device.events(timed)), event_(pool_.take()) {}

HpuFence::~HpuFence() {
  if (!device_.closed()) pool_.put_back(event_);
}

Queue& HpuFence::queue() const { return queue_; }

bool HpuFence::reached() {
  if (device_.closed()) return true;
  const ze_result_t result = api().zeEventQueryStatus(event_);
  if (result == ZE_RESULT_NOT_READY) return false;
  if (result != ZE_RESULT_SUCCESS) raise_failure("zeEventQueryStatus", result, device_.index(), queue_.queued_text());
  return true;
}

void HpuFence::wait() {
  device_.require_open();
  for (;;) {
    ze_result_t result = api().zeEventHostSynchronize(event_, wait_slice_ns);
    if (result == ZE_RESULT_SUCCESS) return;
    if (result != ZE_RESULT_NOT_READY) {
      raise_failure("zeEventHostSynchronize", result, device_.index(), queue_.queued_text());
    }
    result = api().zeDeviceGetStatus(device_.handle());
    if (result != ZE_RESULT_SUCCESS) {
      raise_failure("zeDeviceGetStatus", result, device_.index(), queue_.queued_text());
    }
  }
}

void HpuFence::signal() { WEFT_ZE(device_.index(), zeEventHostSignal, event_); }

uint64_t HpuFence::timestamp() const {
  ze_kernel_timestamp_result_t times = {};
  WEFT_ZE(device_.index(), zeEventQueryKernelTimestamp, event_, &times);
  return times.global.kernelEnd;
}

double HpuFence::milliseconds_since(const Fence& earlier) const {
  device_.require_open();
  return device_.milliseconds_between(static_cast<const HpuFence&>(earlier).timestamp(), timestamp());
}

double HpuFence::clock_period() const { return device_.clock_period(); }

}  // namespace weft::hpu
