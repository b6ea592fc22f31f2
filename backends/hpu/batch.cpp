#include "batch.hpp"

#include <utility>

namespace weft::hpu {

using portable::host::NotedCopy;
using portable::host::NotedFill;
using portable::host::NotedLaunch;

HpuBatch::HpuBatch(HpuDevice& device, HpuQueue& queue, portable::host::CommandNotes notes)
    : device_(device),
      queue_(queue),
      resources_(std::move(notes.resources)),
      begin_(Shared<HpuFence>::make(device, queue, false)),
      end_(Shared<HpuFence>::make(device, queue, false)) {
  ze_command_list_desc_t description = {};
  description.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC;
  description.commandQueueGroupOrdinal = device.queue_description(queue.number()).ordinal;
  ze_command_list_handle_t list = nullptr;
  WEFT_ZE(device.index(), zeCommandListCreate, device.context(), device.handle(), &description, &list);
  list_.reset(list);
  barrier(nullptr, begin_->event());
  WEFT_ZE(device.index(), zeCommandListAppendEventReset, list_.get(), begin_->event());
  for (const portable::host::NotedCommand& command : notes.commands) {
    barrier(nullptr, nullptr);
    append(command);
  }
  barrier(end_->event(), nullptr);
  WEFT_ZE(device.index(), zeCommandListClose, list_.get());
}

HpuBatch::~HpuBatch() {
  if (device_.closed()) {
    static_cast<void>(list_.release());
    return;
  }
  try {
    queue_.drain();
    // As those of a pool are that are used again.
    for (const Shared<HpuFence>& fence : {begin_, end_}) fence->signal();
  } catch (...) {  // the device is lost
  }
}

void HpuBatch::barrier(ze_event_handle_t signal, ze_event_handle_t wait) {
  WEFT_ZE(device_.index(), zeCommandListAppendBarrier, list_.get(), signal, wait != nullptr ? 1 : 0,
          wait != nullptr ? &wait : nullptr);
}

void HpuBatch::append(const portable::host::NotedCommand& command) {
  if (const auto* launch = std::get_if<NotedLaunch>(&command)) {
    const auto& arguments = launch->arguments.list();
    static_cast<Kernel*>(launch->kernel)
        ->append_to(list_.get(), device_.index(), launch->grid, arguments.data(), arguments.size());
  } else if (const auto* copy = std::get_if<NotedCopy>(&command)) {
    WEFT_ZE(device_.index(), zeCommandListAppendMemoryCopy, list_.get(), copy->to, copy->from, copy->bytes, nullptr, 0,
            nullptr);
  } else {  // no library queues anything here
    const auto& fill = std::get<NotedFill>(command);
    WEFT_ZE(device_.index(), zeCommandListAppendMemoryFill, list_.get(), fill.to, &fill.pattern, fill.pattern_bytes,
            fill.bytes, nullptr, 0, nullptr);
  }
}

std::unique_ptr<CommandBatch> HpuQueue::make_batch(portable::host::CommandNotes notes) {
  hpu_.require_open();
  return std::make_unique<HpuBatch>(hpu_, *this, std::move(notes));
}

}  // namespace weft::hpu
