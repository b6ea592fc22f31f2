// A device with memory and queues of its own, whatever runs its kernels: each HPU, each GPU, each device of a plug-in.
//
// Each queue runs its commands in order. The current queues of a thread have one number for all devices, stored in
// each graph node, so backward runs on the queues of forward. Queues are reused and never destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "command_queue.hpp"
#include "../backend.hpp"
#include "command_batch.hpp"

namespace weft {

class DeviceAllocator;

/// A driver's requirements for memory requests, in bytes.
struct MemoryRules {
  size_t alignment = 64;  ///< a power of two, of addresses and sizes
  size_t largest = size_t{1} << 46;
  size_t padding = 0;  ///< behind each block
};

/// All functions may be called by any thread. Commands go to the calling thread's current queue.
class QueuedDevice {
 public:
  explicit QueuedDevice(Device device);
  virtual ~QueuedDevice();
  QueuedDevice(const QueuedDevice&) = delete;

  Device device() const { return device_; }
  int index() const { return device_.index; }
  /// "NVIDIA H200, 140.4 GiB".
  virtual std::string describe() = 0;
  DeviceAllocator& allocator() { return *allocator_; }

  /// The calling thread's.
  CommandQueue& queue();
  CommandQueue& default_queue();
  CommandQueue& take_queue();
  void return_queue(CommandQueue& queue) noexcept;
  /// Whether its queues can read the memory of `other`, which is of its kind.
  virtual bool reaches(QueuedDevice& other) = 0;
  /// All queues. Raises errors on any of them.
  void synchronize();
  /// Waits; true when nothing runs any more.
  bool drain() noexcept;

  /// Null where commands are queued by host code alone.
  virtual std::unique_ptr<KernelNotes> note_kernels() { return nullptr; }

  // For the allocators.
  /// nullptr where the device has no more.
  virtual void* take_memory(size_t bytes) = 0;
  virtual void return_memory(void* data, size_t bytes) noexcept = 0;
  /// Of the host, for copies without a detour; nullptr where there is no more.
  virtual void* take_pinned(size_t bytes) = 0;
  virtual void return_pinned(void* data, size_t bytes) noexcept = 0;
  virtual size_t total_memory() = 0;
  virtual size_t free_memory() = 0;
  const MemoryRules& memory_rules() const { return memory_rules_; }
  /// Each tensor gets memory of its own size, which is returned as soon as it is freed.
  bool has_exact_blocks() const { return synchronous_; }
  void require_open() const;
  bool closed() const { return closed_; }
  /// In a child of fork(): all that are there are closed.
  static void leave_to_parent() noexcept;

 protected:
  virtual std::unique_ptr<CommandQueue> make_queue(int number) = 0;
  /// Those there are.
  std::vector<CommandQueue*> queues();

  bool synchronous_ = false;  ///< every command is waited for
  MemoryRules memory_rules_;  ///< set before the first request
  std::atomic<bool> closed_ = false;

 private:
  const Device device_;
  const std::unique_ptr<DeviceAllocator> allocator_;  ///< outlives every tensor, as the device does
  std::mutex queue_mutex_;
  std::atomic<CommandQueue*> default_queue_ = nullptr;
  std::vector<std::unique_ptr<CommandQueue>> queues_;
  std::vector<CommandQueue*> unused_queues_;
};

/// Devices announce themselves; they live until the program's end.
void register_device(QueuedDevice& device);
/// One that was announced; nullptr where there is none.
QueuedDevice* find_device(Device device);

/// All of one kind, as a backend.
class QueuedBackend : public Backend {
 public:
  /// There is at least one.
  explicit QueuedBackend(DeviceType type);
  ~QueuedBackend() override;

  int device_count() override;
  std::string describe(int index) override { return at(index).describe(); }
  void upload(int index, void* device_data, const void* host_data, size_t bytes) override;
  void download(int index, void* host_data, const void* device_data, size_t bytes) override;
  void copy(int to_index, void* to, int from_index, const void* from, size_t bytes) override;
  void copy_pinned(int index, void* to, const void* from, size_t bytes) override;
  void synchronize(int index) override { at(index).synchronize(); }
  Queue& default_queue(int index) override { return at(index).default_queue(); }
  Queue& take_queue(int index) override { return at(index).take_queue(); }
  void return_queue(Queue& queue) noexcept override;
  void note_use(int index, const void* data, Queue& queue) override;
  Allocator& pinned_allocator() override;

 private:
  QueuedDevice& at(int index);

  const DeviceType type_;
  const std::unique_ptr<DeviceAllocator> pinned_;
};

}  // namespace weft
