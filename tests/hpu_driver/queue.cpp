#include "queue.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "tables.h"
#include "wrong.h"

namespace weft::testing::ze {
namespace {

uint32_t next_seed() {
  static std::atomic<uint32_t> seed{1};
  return seed.fetch_add(1);
}

void count_towards_loss() {
  static std::atomic<uint64_t> executed{0};
  uint64_t limit = config().lose_after;
  if (limit && executed.fetch_add(1) + 1 > limit) lose_device();
}

ze_result_t ZE_APICALL queue_create(ze_context_handle_t context, ze_device_handle_t device_handle,
                                    const ze_command_queue_desc_t* desc, ze_command_queue_handle_t* out) {
  auto device = handles<Device>().find(device_handle);
  if (!device || !handles<Context>().find(context)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc || !out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (device_lost()) return ZE_RESULT_ERROR_DEVICE_LOST;
  auto queue = std::make_shared<CommandQueue>();
  queue->device = device.get();
  queue->synchronous = desc->mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
  handles<CommandQueue>().insert(std::move(queue), out);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL queue_destroy(ze_command_queue_handle_t handle) {
  return destroy_handle<CommandQueue>(handle, "command queue");
}

ze_result_t ZE_APICALL queue_execute(ze_command_queue_handle_t handle, uint32_t count,
                                     ze_command_list_handle_t* list_handles, ze_fence_handle_t fence_handle) {
  auto queue = handles<CommandQueue>().find(handle);
  if (!queue) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (device_lost()) return ZE_RESULT_ERROR_DEVICE_LOST;
  for (uint32_t i = 0; i < count; ++i) {
    auto list = handles<CommandList>().find(list_handles[i]);
    if (!list) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!list->closed || list->immediate || list->device != queue->device) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    for (const auto& command : list->recorded) queue->worker.submit(command);
  }
  if (fence_handle) {
    auto fence = handles<Fence>().find(fence_handle);
    if (!fence) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    Command signal{"fence", {}, fence->event, {}, {}};
    queue->worker.submit(std::make_shared<const Command>(std::move(signal)));
  }
  return queue->synchronous ? queue->worker.synchronize(UINT64_MAX) : ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL queue_synchronize(ze_command_queue_handle_t handle, uint64_t timeout) {
  auto queue = handles<CommandQueue>().find(handle);
  return queue ? queue->worker.synchronize(timeout) : ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
}

ze_result_t ZE_APICALL fence_create(ze_command_queue_handle_t queue, const ze_fence_desc_t* desc,
                                    ze_fence_handle_t* out) {
  if (!handles<CommandQueue>().find(queue)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc || !out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  auto fence = std::make_shared<Fence>();
  if (desc->flags & ZE_FENCE_FLAG_SIGNALED) fence->event->signal(false, 0, 0);
  handles<Fence>().insert(std::move(fence), out);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL fence_destroy(ze_fence_handle_t handle) { return destroy_handle<Fence>(handle, "fence"); }

ze_result_t ZE_APICALL fence_host_synchronize(ze_fence_handle_t handle, uint64_t timeout) {
  auto fence = handles<Fence>().find(handle);
  return fence ? fence->event->wait(timeout) : ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
}

ze_result_t ZE_APICALL fence_query_status(ze_fence_handle_t handle) { return fence_host_synchronize(handle, 0); }

ze_result_t ZE_APICALL fence_reset(ze_fence_handle_t handle) {
  auto fence = handles<Fence>().find(handle);
  if (!fence) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  fence->event->reset();
  return ZE_RESULT_SUCCESS;
}

}  // namespace

Worker::Worker() : random_(next_seed()), thread_([this] { loop(); }) {}

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    work_.notify_all();
  }
  thread_.join();
}

void Worker::submit(std::shared_ptr<const Command> command) {
  for (const auto& event : command->waits) event->add_pending();
  if (command->signal) command->signal->add_pending();
  std::lock_guard lock(mutex_);
  commands_.push_back(std::move(command));
  ++unfinished_;
  if (sleeping_) work_.notify_one();
}

ze_result_t Worker::synchronize(uint64_t timeout) {
  std::unique_lock lock(mutex_);
  return wait_in_slices(lock, idle_, timeout, [this] { return unfinished_ == 0; });
}

void Worker::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    sleeping_ = true;
    work_.wait(lock, [this] { return stop_ || !commands_.empty(); });
    sleeping_ = false;
    if (commands_.empty()) return;
    auto command = std::move(commands_.front());
    commands_.pop_front();
    lock.unlock();
    const size_t executed = step(std::move(command));
    lock.lock();
    unfinished_ -= executed;
    if (unfinished_ == 0) idle_.notify_all();
  }
}

size_t Worker::step(std::shared_ptr<const Command> command) {
  if (does_wrong(Wrong::late) && command->is_launch && held_ == nullptr) {
    held_ = std::move(command);
    return 0;
  }
  const bool held_first = held_ != nullptr && command->signal != nullptr,
             held_next = held_ != nullptr && command->is_launch;
  if (held_first) execute(*held_);
  execute(*command);
  if (!held_first && held_next) execute(*held_);
  if (!held_first && !held_next) return 1;
  held_.reset();
  return 2;
}

void Worker::execute(const Command& command) {
  for (const auto& event : command.waits) {
    event->wait(UINT64_MAX);
    event->remove_pending();
  }
  count_towards_loss();
  if (uint32_t jitter = config().jitter_us) usleep(random_() % (jitter + 1));
  if (config().strict && !device_lost() && !memory_alive(command.memory, command.name)) lose_device();

  uint64_t begin = device_ticks();
  if (command.body && !device_lost()) command.body();
  if (!command.signal) return;
  if (device_lost()) {
    command.signal->remove_pending();
  } else {
    command.signal->signal(true, begin, device_ticks());
  }
}

Worker& worker_of(CommandQueue& queue) {
  static auto* const one = does_wrong(Wrong::serial) ? new Worker : nullptr;
  return one != nullptr ? *one : queue.worker;
}

ze_result_t append(CommandList& list, Command command, ze_event_handle_t signal, uint32_t wait_count,
                   ze_event_handle_t* waits) {
  if (device_lost()) return ZE_RESULT_ERROR_DEVICE_LOST;
  if (list.closed) {
    report("%s appended to a closed command list", command.name);
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  if (wait_count && !waits) return ZE_RESULT_ERROR_INVALID_SIZE;
  if (signal && !(command.signal = handles<Event>().find(signal))) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  for (uint32_t i = 0; i < wait_count && !does_wrong(Wrong::order); ++i) {
    auto event = handles<Event>().find(waits[i]);
    if (!event) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    command.waits.push_back(std::move(event));
  }
  auto shared = std::make_shared<const Command>(std::move(command));
  if (!list.immediate) {
    list.recorded.push_back(std::move(shared));
    return ZE_RESULT_SUCCESS;
  }
  Worker& worker = worker_of(*list.immediate);
  worker.submit(std::move(shared));
  return list.immediate->synchronous ? worker.synchronize(UINT64_MAX) : ZE_RESULT_SUCCESS;
}

void fill_table(ze_command_queue_dditable_t& table) {
  table.pfnCreate = queue_create;
  table.pfnDestroy = queue_destroy;
  table.pfnExecuteCommandLists = queue_execute;
  table.pfnSynchronize = queue_synchronize;
}

void fill_table(ze_fence_dditable_t& table) {
  table.pfnCreate = fence_create;
  table.pfnDestroy = fence_destroy;
  table.pfnHostSynchronize = fence_host_synchronize;
  table.pfnQueryStatus = fence_query_status;
  table.pfnReset = fence_reset;
}

}  // namespace weft::testing::ze
