#include "event.h"

#include "tables.h"
#include "wrong.h"

namespace weft::testing::ze {
namespace {

std::shared_ptr<Event> find_event(ze_event_handle_t handle) { return handles<Event>().find(handle); }

ze_result_t ZE_APICALL pool_create(ze_context_handle_t context, const ze_event_pool_desc_t* desc, uint32_t,
                                   ze_device_handle_t*, ze_event_pool_handle_t* out) {
  if (!handles<Context>().find(context)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc || !out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (desc->count == 0) return ZE_RESULT_ERROR_INVALID_SIZE;
  auto pool = std::make_shared<EventPool>();
  pool->count = desc->count;
  pool->host_visible = (desc->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE) != 0;
  pool->timestamps = (desc->flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP) != 0;
  handles<EventPool>().insert(std::move(pool), out);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL pool_destroy(ze_event_pool_handle_t pool) {
  return destroy_handle<EventPool>(pool, "event pool");
}

ze_result_t ZE_APICALL event_create(ze_event_pool_handle_t pool_handle, const ze_event_desc_t* desc,
                                    ze_event_handle_t* out) {
  auto pool = handles<EventPool>().find(pool_handle);
  if (!pool) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc || !out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (desc->index >= pool->count) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  handles<Event>().insert(std::make_shared<Event>(pool), out);
  return ZE_RESULT_SUCCESS;
}

ze_result_t check_unused(const Event& event, const char* action) {
  int pending = event.pending();
  if (pending == 0 || !config().strict || device_lost()) return ZE_RESULT_SUCCESS;
  report("event %s while %d queued commands use it", action, pending);
  return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
}

ze_result_t ZE_APICALL event_destroy(ze_event_handle_t handle) {
  if (auto event = find_event(handle)) {
    ze_result_t unused = check_unused(*event, "destroyed");
    if (unused != ZE_RESULT_SUCCESS) return unused;
  }
  return destroy_handle<Event>(handle, "event");
}

ze_result_t ZE_APICALL event_host_signal(ze_event_handle_t handle) {
  auto event = find_event(handle);
  if (!event) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  uint64_t now = device_ticks();
  event->signal(false, now, now);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL event_host_synchronize(ze_event_handle_t handle, uint64_t timeout) {
  auto event = find_event(handle);
  if (!event) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!event->pool()->host_visible && config().strict) {
    report("the host waits for an event of a pool that is not host visible");
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  return event->wait(timeout);
}

ze_result_t ZE_APICALL event_query_status(ze_event_handle_t handle) {
  const ze_result_t status = event_host_synchronize(handle, 0);
  return status == ZE_RESULT_NOT_READY && does_wrong(Wrong::query) ? ZE_RESULT_SUCCESS : status;
}

ze_result_t ZE_APICALL event_host_reset(ze_event_handle_t handle) {
  auto event = find_event(handle);
  if (!event) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  ze_result_t unused = check_unused(*event, "reset");
  if (unused == ZE_RESULT_SUCCESS) event->reset();
  return unused;
}

ze_result_t ZE_APICALL event_query_timestamp(ze_event_handle_t handle, ze_kernel_timestamp_result_t* result) {
  auto event = find_event(handle);
  if (!event) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!result) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  return event->timestamp(result);
}

}  // namespace

uint64_t host_nanoseconds() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

uint64_t device_ticks() {
  const uint32_t bits = config().timestamp_bits;
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t ticks = host_nanoseconds() / timestamp_period_ns;
  return (does_wrong(Wrong::clock) ? ~ticks : ticks) & mask;
}

void Event::add_pending() {
  std::lock_guard lock(mutex_);
  ++pending_;
}

void Event::remove_pending() {
  std::lock_guard lock(mutex_);
  --pending_;
}

int Event::pending() const {
  std::lock_guard lock(mutex_);
  return pending_;
}

void Event::signal(bool from_command, uint64_t begin, uint64_t end) {
  std::lock_guard lock(mutex_);
  // Together with the signal: after the signal the event may be destroyed at once.
  if (from_command) --pending_;
  begin_ = begin;
  end_ = end;
  signalled_ = true;
  changed_.notify_all();
}

void Event::reset() {
  std::lock_guard lock(mutex_);
  signalled_ = false;
}

bool Event::signalled() const {
  std::lock_guard lock(mutex_);
  return signalled_;
}

ze_result_t Event::wait(uint64_t timeout) {
  std::unique_lock lock(mutex_);
  return wait_in_slices(lock, changed_, timeout, [this] { return signalled_; });
}

ze_result_t Event::timestamp(ze_kernel_timestamp_result_t* result) const {
  if (!pool_->timestamps) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  std::lock_guard lock(mutex_);
  if (!signalled_) return ZE_RESULT_NOT_READY;
  result->global.kernelStart = result->context.kernelStart = begin_;
  result->global.kernelEnd = result->context.kernelEnd = end_;
  return ZE_RESULT_SUCCESS;
}

void fill_table(ze_event_pool_dditable_t& table) {
  table.pfnCreate = pool_create;
  table.pfnDestroy = pool_destroy;
}

void fill_table(ze_event_dditable_t& table) {
  table.pfnCreate = event_create;
  table.pfnDestroy = event_destroy;
  table.pfnHostSignal = event_host_signal;
  table.pfnHostSynchronize = event_host_synchronize;
  table.pfnQueryStatus = event_query_status;
  table.pfnHostReset = event_host_reset;
  table.pfnQueryKernelTimestamp = event_query_timestamp;
}

}  // namespace weft::testing::ze
