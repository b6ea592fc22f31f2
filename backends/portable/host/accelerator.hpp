// What the host side of portable kernels needs of a device. Each HPU and each GPU is one.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../../backend.hpp"
#include "../../dispatch.hpp"
#include "../kernels.hpp"
#include "queue.hpp"

namespace weft::portable::host {

class DeviceAllocator;

#define WEFT_PORTABLE_MODULE(name) name,
enum class Module : uint8_t { WEFT_PORTABLE_MODULES(WEFT_PORTABLE_MODULE) count };
#undef WEFT_PORTABLE_MODULE
inline constexpr int module_count = static_cast<int>(Module::count);

/// A kernel by its name, and the module that has it for the first of its number types.
struct KernelName {
  const char* name;
  Module first;
};
namespace named {
// clang-format off
#define WEFT_NAMES(name, ...) inline constexpr KernelName name{#name, first};
inline namespace of_pointwise { constexpr Module first = Module::pointwise_f32; WEFT_POINTWISE_KERNELS(WEFT_NAMES) }
inline namespace of_reduce { constexpr Module first = Module::reduce_f32; WEFT_REDUCE_KERNELS(WEFT_NAMES) }
inline namespace of_matmul { constexpr Module first = Module::matmul_f32; WEFT_MATMUL_KERNELS(WEFT_NAMES) }
inline namespace of_random { constexpr Module first = Module::random_f32; WEFT_RANDOM_KERNELS(WEFT_NAMES) }
inline namespace of_rows { constexpr Module first = Module::rows_f32; WEFT_ROWS_KERNELS(WEFT_NAMES) }
inline namespace of_attention { constexpr Module first = Module::attention_f32; WEFT_ATTENTION_KERNELS(WEFT_NAMES) }
inline namespace of_network { constexpr Module first = Module::network_f32; WEFT_NETWORK_KERNELS(WEFT_NAMES) }
inline namespace of_gather { constexpr Module first = Module::gather_f32; WEFT_GATHER_KERNELS(WEFT_NAMES) }
inline namespace of_move { constexpr Module first = Module::move_any; WEFT_MOVE_KERNELS(WEFT_NAMES) }
inline namespace of_index { constexpr Module first = Module::index_any; WEFT_INDEX_KERNELS(WEFT_NAMES) }
#undef WEFT_NAMES
// clang-format on
}  // namespace named

/// All functions may be called by any thread. Commands go to the calling thread's current queue.
class Accelerator {
 public:
  explicit Accelerator(Device device);
  virtual ~Accelerator();
  Accelerator(const Accelerator&) = delete;

  Device device() const { return device_; }
  int index() const { return device_.index; }
  /// "NVIDIA H200, 140.4 GiB".
  virtual std::string describe() = 0;
  bool has_double() const { return has_double_; }
  /// Lanes that run together; 1 where work-groups gain nothing from being wide.
  int simd_width() const { return simd_width_; }
  DeviceAllocator& allocator() { return *allocator_; }

  // The calling thread's queue.
  DeviceQueue& queue();
  void upload(void* to, const void* from, size_t bytes) { queue().upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) { queue().download(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) { queue().copy(to, from, bytes); }
  bool fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) {
    return queue().fill(to, pattern, pattern_bytes, bytes);
  }
  void launch(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) {
    queue().launch(kernel, grid, arguments, count);
  }
  uint32_t note_index_call() { return queue().note_index_call(); }
  BadIndex* bad_index() { return queue().bad_index(); }

  virtual Kernel& find_kernel(Module module, const std::string& name) = 0;
  /// Whether its queues can read the memory of `other`.
  virtual bool reaches(Accelerator& other) = 0;

  DeviceQueue& default_queue();
  DeviceQueue& take_queue();
  void return_queue(DeviceQueue& queue) noexcept;
  /// All queues; raises what failed on one of them.
  void synchronize();
  /// Waits; true when nothing runs any more.
  bool drain() noexcept;

  // For the allocators.
  /// nullptr where the device has no more.
  virtual void* take_memory(size_t bytes) = 0;
  virtual void return_memory(void* data) noexcept = 0;
  /// Of the host, for copies without a detour; nullptr where there is no more.
  virtual void* take_pinned(size_t bytes) = 0;
  virtual void return_pinned(void* data) noexcept = 0;
  virtual size_t total_memory() = 0;
  virtual size_t free_memory() = 0;
  /// Each tensor gets memory of its own size, which is returned as soon as it is freed.
  bool has_exact_blocks() const { return synchronous_; }
  void require_open() const;
  bool closed() const { return closed_; }

 protected:
  virtual std::unique_ptr<DeviceQueue> make_queue(int number) = 0;
  /// Those there are.
  std::vector<DeviceQueue*> queues();

  bool has_double_ = true;
  int simd_width_ = 1;
  bool synchronous_ = false;  ///< every command is waited for
  std::atomic<bool> closed_ = false;

 private:
  const Device device_;
  const std::unique_ptr<DeviceAllocator> allocator_;  ///< outlives every tensor, as the device does
  std::mutex queue_mutex_;
  std::atomic<DeviceQueue*> default_queue_ = nullptr;
  std::vector<std::unique_ptr<DeviceQueue>> queues_;
  std::vector<DeviceQueue*> unused_queues_;
};

/// Devices announce themselves; they live until the program's end.
void register_accelerator(Accelerator& accelerator);
/// All of one kind, as a backend.
class AcceleratorBackend final : public Backend {
 public:
  explicit AcceleratorBackend(DeviceType type);
  ~AcceleratorBackend() override;

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
  Accelerator& at(int index);

  const DeviceType type_;
  const std::unique_ptr<DeviceAllocator> pinned_;
};
/// The device that `view` lies on.
Accelerator& device_of(const View& view);
/// Whether an environment variable is set to anything but 0.
bool is_switched_on(const char* variable);

}  // namespace weft::portable::host
