// The interface of a device for the host side of portable kernels, besides memory and queues. HPUs and GPUs implement
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "../../dispatch.hpp"
#include "../../queued/device.hpp"
#include "../kernels.hpp"
#include "command_notes.hpp"
#include "queue.hpp"

namespace weft::portable::host {

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
inline namespace of_fourier { constexpr Module first = Module::fourier_f32; WEFT_FOURIER_KERNELS(WEFT_NAMES) }
inline namespace of_move { constexpr Module first = Module::move_any; WEFT_MOVE_KERNELS(WEFT_NAMES) }
inline namespace of_index { constexpr Module first = Module::index_any; WEFT_INDEX_KERNELS(WEFT_NAMES) }
inline namespace of_quantize { constexpr Module first = Module::quantize_any; WEFT_QUANTIZE_KERNELS(WEFT_NAMES) }
#undef WEFT_NAMES
// clang-format on
}  // namespace named

/// Lines of pairs, one behind the other. Keys differ in their lowest `bits` bits alone.
struct PairsToSort {
  const uint64_t* keys;
  uint64_t* keys_out;
  const int64_t* order;
  int64_t* order_out;
  int64_t lines, length;
  int bits;
};

/// All functions may be called by any thread. Commands go to the calling thread's current queue.
class Accelerator : public QueuedDevice {
 public:
  using QueuedDevice::QueuedDevice;

  /// Of all accelerators of the process, whatever their kind.
  int number() const { return number_; }
  bool has_double() const { return has_double_; }
  /// Lanes that run together; 1 where work-groups gain nothing from being wide.
  int simd_width() const { return simd_width_; }

  std::unique_ptr<KernelNotes> note_kernels() override {
    return repeats_commands_ ? note_kernels_of(static_cast<DeviceQueue&>(default_queue())) : nullptr;
  }

  // The calling thread's queue.
  DeviceQueue& queue() { return static_cast<DeviceQueue&>(QueuedDevice::queue()); }
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
  /// Sorts each line by its keys with a library of the device's; equal ones keep their order. False, with nothing done,
  /// where the portable kernels are to do it.
  virtual bool sort_pairs(const PairsToSort&) { return false; }

 private:
  static inline std::atomic<int> next_number = 0;
  const int number_ = next_number++;

 protected:
  bool repeats_commands_ = false;  ///< its queues make batches
  bool has_double_ = true;
  int simd_width_ = 1;
};

/// The device of `view`.
inline Accelerator& device_of(const View& view) {
  return static_cast<Accelerator&>(*find_device(Device(view.layout.device_type, view.layout.device_index)));
}

}  // namespace weft::portable::host
