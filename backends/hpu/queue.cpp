// The queue of a device: one immediate command list. API 1.4 orders nothing by itself, so each command waits for those
// before it at a barrier.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "device.hpp"
#include "../../tensor/error.hpp"

namespace weft::hpu {

namespace {
/// The driver is asked about the device's health so often while the host waits.
constexpr uint64_t wait_slice_ns = 50'000'000;
}  // namespace

void HpuDevice::create_queue() {
  ze_command_queue_desc_t queue = {};
  queue.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  queue.ordinal = queue_ordinal_;
  queue.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS;
  WEFT_ZE(index(), zeCommandListCreateImmediate, context_, handle_, &queue, &list_);

  ze_event_pool_desc_t pool = {};
  pool.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC;
  pool.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE;
  pool.count = slot_count + 1;
  ze_device_handle_t device = handle_;
  WEFT_ZE(index(), zeEventPoolCreate, context_, &pool, 1, &device, &events_);
  done_ = create_event(slot_count);

  staging_ = static_cast<char*>(host_memory(slot_bytes * slot_count));
  for (int i = 0; i < slot_count; ++i) {
    slots_[static_cast<size_t>(i)] = {staging_ + static_cast<size_t>(i) * slot_bytes,
                                      create_event(static_cast<uint32_t>(i)), false};
  }
  bad_index_ = static_cast<portable::BadIndex*>(host_memory(sizeof(portable::BadIndex)));
  *bad_index_ = {};
}

void* HpuDevice::host_memory(size_t bytes) {
  const ze_host_mem_alloc_desc_t host = {ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
  void* memory = nullptr;
  if (api().zeMemAllocHost(context_, &host, bytes, 64, &memory) == ZE_RESULT_SUCCESS) return memory;
  const size_t free = free_memory();
  throw OutOfMemoryError(
      format_error(
          {.op = "hpu",
           .problem = fmt::format("no {} bytes of the host's memory for transfers with hpu:{}", bytes, index()),
           .details = fmt::format("the device has {} bytes, {} free, and gives out {} at once", total_memory_, free,
                                  max_allocation_),
           .remedy = "raise the driver's limits, or use the CPU"},
          Location::none()),
      bytes, 0, 0, total_memory_);
}

ze_event_handle_t HpuDevice::create_event(uint32_t number) {
  ze_event_desc_t event = {};
  event.stype = ZE_STRUCTURE_TYPE_EVENT_DESC;
  event.index = number;
  event.signal = ZE_EVENT_SCOPE_FLAG_HOST;
  event.wait = ZE_EVENT_SCOPE_FLAG_HOST;
  ze_event_handle_t handle = nullptr;
  WEFT_ZE(index(), zeEventCreate, events_, &event, &handle);
  return handle;
}

void HpuDevice::order() {
  require_open();
  if (pending_) WEFT_ZE(index(), zeCommandListAppendBarrier, list_, nullptr, 0, nullptr);
  pending_ = true;
}

void HpuDevice::after_command() {
  if (synchronous_) finish();
}

void HpuDevice::wait(ze_event_handle_t event) {
  for (;;) {
    const ze_result_t result = api().zeEventHostSynchronize(event, wait_slice_ns);
    if (result == ZE_RESULT_SUCCESS) return;
    if (result != ZE_RESULT_NOT_READY) raise_failure("zeEventHostSynchronize", result, index());
    WEFT_ZE(index(), zeDeviceGetStatus, handle_);
  }
}

void HpuDevice::finish() {
  if (!pending_) return;
  WEFT_ZE(index(), zeCommandListAppendBarrier, list_, done_, 0, nullptr);
  wait(done_);
  WEFT_ZE(index(), zeEventHostReset, done_);
  pending_ = false;
}

void HpuDevice::synchronize() {
  std::lock_guard lock(mutex_);
  require_open();
  finish();
  raise_bad_index();
}

bool HpuDevice::drain() noexcept {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  try {
    finish();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

HpuDevice::StagingSlot& HpuDevice::next_slot() {
  StagingSlot& slot = slots_[static_cast<size_t>(next_slot_)];
  next_slot_ = (next_slot_ + 1) % slot_count;
  if (slot.busy) {
    wait(slot.done);
    WEFT_ZE(index(), zeEventHostReset, slot.done);
    slot.busy = false;
  }
  return slot;
}

void HpuDevice::upload(void* to, const void* from, size_t bytes) {
  std::lock_guard lock(mutex_);
  for (size_t done = 0; done < bytes; done += slot_bytes) {
    const size_t size = std::min(slot_bytes, bytes - done);
    require_open();
    StagingSlot& slot = next_slot();
    std::memcpy(slot.data, static_cast<const char*>(from) + done, size);
    order();
    WEFT_ZE(index(), zeCommandListAppendMemoryCopy, list_, static_cast<char*>(to) + done, slot.data, size, slot.done, 0,
            nullptr);
    slot.busy = true;
  }
  after_command();
}

void HpuDevice::download(void* to, const void* from, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes != 0) {
    order();
    WEFT_ZE(index(), zeCommandListAppendMemoryCopy, list_, to, from, bytes, nullptr, 0, nullptr);
  }
  finish();
  raise_bad_index();
}

void HpuDevice::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0 || to == from) return;
  std::lock_guard lock(mutex_);
  order();
  WEFT_ZE(index(), zeCommandListAppendMemoryCopy, list_, to, from, bytes, nullptr, 0, nullptr);
  after_command();
}

bool HpuDevice::fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) {
  if (bytes == 0) return true;
  std::lock_guard lock(mutex_);
  order();
  WEFT_ZE(index(), zeCommandListAppendMemoryFill, list_, to, pattern, pattern_bytes, bytes, nullptr, 0, nullptr);
  after_command();
  return true;
}

void HpuDevice::launch(portable::host::Kernel& entry, const Grid& grid, const Argument* arguments, size_t count) {
  auto& kernel = static_cast<Kernel&>(entry);
  std::lock_guard lock(mutex_);  // setting arguments and launching must not be torn apart
  order();
  if (kernel.group_size != grid.group_size) {
    WEFT_ZE(index(), zeKernelSetGroupSize, kernel.handle, grid.group_size[0], grid.group_size[1], grid.group_size[2]);
    kernel.group_size = grid.group_size;
  }
  for (size_t i = 0; i < count; ++i) {
    WEFT_ZE(index(), zeKernelSetArgumentValue, kernel.handle, static_cast<uint32_t>(i), arguments[i].size,
            arguments[i].value);
  }
  const ze_group_count_t groups = {grid.groups[0], grid.groups[1], grid.groups[2]};
  WEFT_ZE(index(), zeCommandListAppendLaunchKernel, list_, kernel.handle, &groups, nullptr, 0, nullptr);
  after_command();
}

}  // namespace weft::hpu
