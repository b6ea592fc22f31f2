// Commands in a closed command list, which a queue executes again and again.
#pragma once

#include <memory>
#include <type_traits>

#include "queue.hpp"
#include "../portable/host/command_notes.hpp"

namespace weft::hpu {

class HpuBatch final : public CommandBatch {
 public:
  HpuBatch(HpuDevice& device, HpuQueue& queue, portable::host::CommandNotes notes);
  ~HpuBatch() override;

  void run() override { queue_.execute(list_.get(), begin_->event(), end_->event()); }

 private:
  void append(const portable::host::NotedCommand& command);
  void barrier(ze_event_handle_t signal, ze_event_handle_t wait);

  HpuDevice& device_;
  HpuQueue& queue_;
  std::unique_ptr<portable::host::CommandResources> resources_;
  /// Signalled by the queue when the list may begin, and by the list when it has ended; the waiter resets each.
  Shared<HpuFence> begin_, end_;
  struct Destroy {
    void operator()(ze_command_list_handle_t list) const noexcept { api().zeCommandListDestroy(list); }
  };
  std::unique_ptr<std::remove_pointer_t<ze_command_list_handle_t>, Destroy> list_;
};

}  // namespace weft::hpu
