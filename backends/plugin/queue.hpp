// A stream of a plug-in's device, and fences in it.
#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include "device.hpp"

namespace weft::plugin {

class PluginFence;

class PluginQueue final : public CommandQueue {
 public:
  PluginQueue(PluginDevice& device, int number);

  PluginDevice& plugin_device() const { return device_; }
  /// Queues one kernel.
  void run(WeftKernelCall& call);

  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void copy_in(void* to, const void* from, size_t bytes) override;
  void copy_out(void* to, const void* from, size_t bytes) override;
  void copy_peer(void* to, QueuedDevice& source, const void* from, size_t bytes) override;
  bool fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) override;

  Shared<Fence> record(bool timed) override;
  void wait(const Shared<Fence>& fence) override;
  void call(Callback<void()> function) override;
  bool idle() override;
  void drain() override;
  void* native_handle() override { return stream_; }

  /// The device is idle, and will not be used any more.
  void close() noexcept;

 private:
  static constexpr size_t slot_bytes = size_t{128} << 10;
  static constexpr size_t slot_count = 32;
  struct HostCall;
  using Copy = int (*)(int32_t, void*, const void*, size_t);
  using QueuedCopy = int (*)(int32_t, WeftStream, void*, const void*, size_t);

  void begin();
  /// The plug-in's status of the call; queued on WEFT_OK.
  int queue_kernel(const WeftKernelCall& call);
  [[noreturn]] void raise_kernel_failure(const char* kernel, int code);
  void after_command();
  void queue_copy(const char* entry, QueuedCopy queued, const char* waiting_entry, Copy waiting, void* to,
                  const void* from, size_t bytes);
  char* next_slot(size_t& slot);

  PluginDevice& device_;
  const Library& library_;
  const WeftDeviceInterface& table_;
  const int32_t number_;
  WeftStream stream_ = nullptr;
  std::mutex mutex_;  ///< of what is queued; never held while the host waits
  /// Of commands and waits, and how many of them are done at least.
  std::atomic<uint64_t> queued_ = 0, finished_ = 0;
  std::mutex upload_mutex_;
  char* staging_ = nullptr;
  std::array<Shared<Fence>, slot_count> slots_;
  size_t next_slot_ = 0;
  /// List of functions that have run. Their captures must not be destroyed on a thread of the plug-in.
  std::atomic<HostCall*> called_ = nullptr;
};

class PluginFence final : public Fence {
 public:
  explicit PluginFence(PluginQueue& queue) : queue_(queue), event_(queue.plugin_device().make_event()) {}
  ~PluginFence() override { queue_.plugin_device().drop(event_); }

  Queue& queue() const override { return queue_; }
  bool reached() override;
  void wait() override;
  double milliseconds_since(const Fence& earlier) const override;
  WeftEvent event() const { return event_; }

 private:
  PluginQueue& queue_;
  const WeftEvent event_;
};

}  // namespace weft::plugin
