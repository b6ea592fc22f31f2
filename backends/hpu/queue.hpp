// A queue of a Level Zero device: one immediate command list.
#pragma once

#include <array>
#include <deque>
#include <mutex>

#include "device.hpp"

namespace weft::hpu {

class HpuQueue final : public portable::host::DeviceQueue {
 public:
  HpuQueue(HpuDevice& device, int number);

  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  bool fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) override;
  void launch(portable::host::Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) override;

  Shared<Fence> record(bool timed) override;
  void wait(const Shared<Fence>& fence) override;
  void call(Callback<void()> function) override;
  bool idle() override;
  void drain() override;
  std::unique_ptr<CommandBatch> make_batch(portable::host::CommandNotes notes) override;
  /// A closed list that waits for `begin`, resets it and signals `end`.
  void execute(ze_command_list_handle_t list, ze_event_handle_t begin, ze_event_handle_t end);
  void* native_handle() override { return list_; }

  void stop_worker() noexcept {
    if (runner_ != nullptr) runner_->stop();
  }
  /// The device is idle, and will not be used any more.
  void close() noexcept;

 private:
  static constexpr size_t slot_bytes = size_t{128} << 10;
  static constexpr int slot_count = 32;
  struct Held {
    Shared<HpuFence> awaited, passed;
  };

  /// The caller's command: now, or on the worker, in the order of the calls.
  template <class F>
  void run(F command);
  void copy_now(void* to, const void* from, size_t bytes);
  void fill_now(void* to, const void* pattern, size_t pattern_bytes, size_t bytes);
  void execute_now(ze_command_list_handle_t list, ze_event_handle_t begin, ze_event_handle_t end);
  void launch_now(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count);
  /// The worker's commands are queued then.
  void catch_up() noexcept;
  void order();
  void after_command(std::unique_lock<std::mutex>& lock);
  Shared<HpuFence> record_here(bool timed);
  void wait_here(Shared<HpuFence> fence);
  char* next_slot(Shared<HpuFence>& done);

  HpuDevice& hpu_;
  std::mutex mutex_;
  ze_command_list_handle_t list_ = nullptr;
  ze_command_queue_handle_t executor_ = nullptr;  ///< of batches, made with the first one
  uint64_t queued_ = 0;
  uint64_t finished_ = 0;  ///< so many of them are done, at least
  /// What commands wait for lives until they have run.
  std::deque<Held> held_;
  char* staging_ = nullptr;
  std::array<Shared<HpuFence>, slot_count> slots_;
  int next_slot_ = 0;
};

}  // namespace weft::hpu
