// API 1.4 orders nothing by itself, so each command waits for those before it at a barrier.
#include "queue.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "../portable/host/command_notes.hpp"
#include "../../tensor/error.hpp"

namespace weft::hpu {

using portable::host::KeptArguments;

HpuQueue::HpuQueue(HpuDevice& device, int number) : DeviceQueue(device, number), hpu_(device) {
  bad_index_ = static_cast<portable::BadIndex*>(device.host_memory(sizeof(portable::BadIndex)));
  *bad_index_ = {};
  const ze_command_queue_desc_t queue = device.queue_description(number);
  WEFT_ZE(device.index(), zeCommandListCreateImmediate, device.context(), device.handle(), &queue, &list_);
  if (device.has_workers()) runner_ = std::make_unique<RecipeRunner>();
}

void HpuQueue::close() noexcept {
  api().zeCommandListDestroy(list_);
  if (executor_ != nullptr) api().zeCommandQueueDestroy(executor_);
  if (staging_ != nullptr) api().zeMemFree(hpu_.context(), staging_);
  api().zeMemFree(hpu_.context(), bad_index_);
}

// A command does not own its memory: memory freed meanwhile is held back, or reused by later commands of the queue.
template <class F>
void HpuQueue::run(F command) {
  hpu_.require_open();
  if (runner_ == nullptr) command();
  else runner_->run(std::move(command));
}

void HpuQueue::catch_up() noexcept {
  if (runner_ != nullptr) runner_->drain();
}

void HpuQueue::order() {
  hpu_.require_open();
  if (queued_ != finished_) WEFT_ZE(hpu_.index(), zeCommandListAppendBarrier, list_, nullptr, 0, nullptr);
  ++queued_;
}

void HpuQueue::after_command(std::unique_lock<std::mutex>& lock) {
  if (!hpu_.is_synchronous()) return;
  lock.unlock();
  drain();
}

Shared<HpuFence> HpuQueue::record_here(bool timed) {
  hpu_.require_open();
  refuse_notes();
  Shared<HpuFence> fence = Shared<HpuFence>::make(hpu_, *this, timed);
  ++queued_;
  WEFT_ZE(hpu_.index(), zeCommandListAppendBarrier, list_, fence->event(), 0, nullptr);
  return fence;
}

void HpuQueue::wait_here(Shared<HpuFence> fence) {
  while (!held_.empty() && held_.front().passed->reached()) held_.pop_front();
  Shared<HpuFence> passed = Shared<HpuFence>::make(hpu_, *this, false);
  ze_event_handle_t event = fence->event();
  held_.push_back({std::move(fence), passed});  // before the command that needs them
  order();
  WEFT_ZE(hpu_.index(), zeCommandListAppendBarrier, list_, passed->event(), 1, &event);
}

Shared<Fence> HpuQueue::record(bool timed) {
  hpu_.require_open();
  catch_up();
  const std::lock_guard lock(mutex_);
  return record_here(timed);
}

void HpuQueue::wait(const Shared<Fence>& fence) {
  if (&fence->queue() == this) return;
  hpu_.require_open();
  const auto& other = static_cast<HpuDevice&>(static_cast<HpuQueue&>(fence->queue()).accelerator());
  if (other.context() != hpu_.context()) return call([fence] { fence->wait(); });  // of another driver
  catch_up();
  const std::lock_guard lock(mutex_);
  wait_here(Shared<HpuFence>(fence, static_cast<HpuFence*>(fence.get())));
}

void HpuQueue::call(Callback<void()> function) {
  hpu_.require_open();
  catch_up();
  note_command();
  std::unique_lock lock(mutex_);
  Shared<HpuFence> done = Shared<HpuFence>::make(hpu_, *this, false);
  hpu_.host_calls().add({record_here(false), done, std::move(function)});
  wait_here(std::move(done));
  after_command(lock);
}

bool HpuQueue::idle() {
  hpu_.require_open();
  catch_up();
  const std::lock_guard lock(mutex_);
  if (queued_ == finished_) return true;
  const uint64_t queued = queued_;
  const Shared<HpuFence> end = record_here(false);
  if (!end->reached()) return false;
  finished_ = std::max(finished_, queued + 1);
  return queued_ == finished_;
}

void HpuQueue::drain() {
  catch_up();
  std::unique_lock lock(mutex_);
  if (queued_ == finished_) return;
  const Shared<HpuFence> end = record_here(false);
  const uint64_t queued = queued_;
  lock.unlock();
  end->wait();
  forget_commands();
  lock.lock();
  finished_ = std::max(finished_, queued);
  while (!held_.empty() && held_.front().passed->reached()) held_.pop_front();
}

/// Memory for a part of an upload, and the event that frees it.
char* HpuQueue::next_slot(Shared<HpuFence>& done) {
  if (staging_ == nullptr) staging_ = static_cast<char*>(hpu_.host_memory(slot_bytes * slot_count));
  const int slot = next_slot_;
  next_slot_ = (next_slot_ + 1) % slot_count;
  Shared<HpuFence>& busy = slots_[static_cast<size_t>(slot)];
  if (busy) busy->wait();
  busy = done = Shared<HpuFence>::make(hpu_, *this, false);
  return staging_ + static_cast<size_t>(slot) * slot_bytes;
}

void HpuQueue::upload(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  refuse_notes();
  catch_up();
  note_command();
  std::unique_lock lock(mutex_);
  for (size_t copied = 0; copied < bytes; copied += slot_bytes) {
    const size_t size = std::min(slot_bytes, bytes - copied);
    hpu_.require_open();
    Shared<HpuFence> done;
    char* const slot = next_slot(done);
    std::memcpy(slot, static_cast<const char*>(from) + copied, size);
    order();
    WEFT_ZE(hpu_.index(), zeCommandListAppendMemoryCopy, list_, static_cast<char*>(to) + copied, slot, size,
            done->event(), 0, nullptr);
  }
  after_command(lock);
}

void HpuQueue::download(void* to, const void* from, size_t bytes) {
  copy(to, from, bytes);
  synchronize();
}

void HpuQueue::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0 || to == from) return;
  note_copy(to, from, bytes);
  run([=, this] { copy_now(to, from, bytes); });
}

void HpuQueue::copy_now(void* to, const void* from, size_t bytes) {
  note_command();
  std::unique_lock lock(mutex_);
  order();
  WEFT_ZE(hpu_.index(), zeCommandListAppendMemoryCopy, list_, to, from, bytes, nullptr, 0, nullptr);
  after_command(lock);
}

bool HpuQueue::fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) {
  if (bytes == 0) return true;
  if (pattern_bytes > hpu_.longest_pattern()) return false;
  note_fill(to, pattern, pattern_bytes, bytes);
  uint64_t value = 0;
  std::memcpy(&value, pattern, pattern_bytes);
  run([=, this] { fill_now(to, &value, pattern_bytes, bytes); });
  return true;
}

void HpuQueue::fill_now(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) {
  note_command();
  std::unique_lock lock(mutex_);
  order();
  WEFT_ZE(hpu_.index(), zeCommandListAppendMemoryFill, list_, to, pattern, pattern_bytes, bytes, nullptr, 0, nullptr);
  after_command(lock);
}

void HpuQueue::launch(portable::host::Kernel& entry, const Grid& grid, const Argument* arguments, size_t count) {
  auto& kernel = static_cast<Kernel&>(entry);
  note_launch(kernel, grid, arguments, count);
  if (runner_ == nullptr) return launch_now(kernel, grid, arguments, count);
  run([this, &kernel, grid, kept = KeptArguments(arguments, count)] {
    launch_now(kernel, grid, kept.list().data(), kept.list().size());
  });
}

void Kernel::append_to(ze_command_list_handle_t list, int device, const Grid& grid, const Argument* arguments,
                       size_t count) {
  const std::lock_guard lock(mutex);
  if (group_size != grid.group_size) {
    WEFT_ZE(device, zeKernelSetGroupSize, handle, grid.group_size[0], grid.group_size[1], grid.group_size[2]);
    group_size = grid.group_size;
  }
  for (size_t i = 0; i < count; ++i) {
    WEFT_ZE(device, zeKernelSetArgumentValue, handle, static_cast<uint32_t>(i), arguments[i].size, arguments[i].value);
  }
  const ze_group_count_t groups = {grid.groups[0], grid.groups[1], grid.groups[2]};
  WEFT_ZE(device, zeCommandListAppendLaunchKernel, list, handle, &groups, nullptr, 0, nullptr);
}

void HpuQueue::launch_now(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) {
  note_command();
  std::unique_lock lock(mutex_);
  order();
  kernel.append_to(list_, hpu_.index(), grid, arguments, count);
  after_command(lock);
}

void HpuQueue::execute(ze_command_list_handle_t list, ze_event_handle_t begin, ze_event_handle_t end) {
  run([=, this] { execute_now(list, begin, end); });
}

void HpuQueue::execute_now(ze_command_list_handle_t list, ze_event_handle_t begin, ze_event_handle_t end) {
  note_command();
  std::unique_lock lock(mutex_);
  if (executor_ == nullptr) {
    const ze_command_queue_desc_t queue = hpu_.queue_description(number());
    WEFT_ZE(hpu_.index(), zeCommandQueueCreate, hpu_.context(), hpu_.handle(), &queue, &executor_);
  }
  queued_ += 3;
  WEFT_ZE(hpu_.index(), zeCommandListAppendBarrier, list_, begin, 0, nullptr);
  WEFT_ZE(hpu_.index(), zeCommandQueueExecuteCommandLists, executor_, 1, &list, nullptr);
  WEFT_ZE(hpu_.index(), zeCommandListAppendBarrier, list_, nullptr, 1, &end);
  WEFT_ZE(hpu_.index(), zeCommandListAppendEventReset, list_, end);
  after_command(lock);
}

}  // namespace weft::hpu
