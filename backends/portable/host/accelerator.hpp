// What the host side of portable kernels needs of a device. Each HPU and each GPU is one.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "../../dispatch.hpp"
#include "../kernels.hpp"
#include "../plan.hpp"

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
inline namespace of_move { constexpr Module first = Module::move_any; WEFT_MOVE_KERNELS(WEFT_NAMES) }
inline namespace of_index { constexpr Module first = Module::index_any; WEFT_INDEX_KERNELS(WEFT_NAMES) }
#undef WEFT_NAMES
// clang-format on
}  // namespace named

/// Backends derive theirs.
struct Kernel {};

struct Grid {
  std::array<uint32_t, 3> groups = {1, 1, 1};
  std::array<uint32_t, 3> group_size = {1, 1, 1};
};

struct Argument {
  size_t size;
  const void* value;
};

/// Commands run in the order in which they are queued. All functions may be called by any thread.
class Accelerator {
 public:
  explicit Accelerator(Device device);
  virtual ~Accelerator();
  Accelerator(const Accelerator&) = delete;

  Device device() const { return device_; }
  int index() const { return device_.index; }
  bool has_double() const { return has_double_; }
  /// Lanes that run together; 1 where work-groups gain nothing from being wide.
  int simd_width() const { return simd_width_; }
  DeviceAllocator& allocator() { return *allocator_; }

  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  /// `pattern` of 1, 2, 4 or 8 bytes repeated over `bytes`; false where the device has no command for it.
  virtual bool fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) = 0;
  virtual Kernel& find_kernel(Module module, const std::string& name) = 0;
  virtual void launch(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) = 0;
  /// Waits for everything that was queued; raises an index that a kernel found out of range.
  virtual void synchronize() = 0;

  /// The caller's op and place under a number, for a kernel that checks indices.
  uint32_t note_index_call();
  /// Where kernels report: memory that the host reads too.
  BadIndex* bad_index() const { return bad_index_; }

  // For the allocator.
  /// nullptr where the device has no more.
  virtual void* take_memory(size_t bytes) = 0;
  virtual void return_memory(void* data) noexcept = 0;
  /// Waits; true when nothing runs any more.
  virtual bool drain() noexcept = 0;
  virtual size_t total_memory() = 0;
  virtual size_t free_memory() = 0;
  /// Each tensor gets memory of its own size, which is returned as soon as it is freed.
  bool has_exact_blocks() const { return synchronous_; }
  void require_open() const;
  bool closed() const { return closed_; }
  std::recursive_mutex& mutex() { return mutex_; }

 protected:
  /// For use after a wait.
  void raise_bad_index();

  bool has_double_ = true;
  int simd_width_ = 1;
  bool synchronous_ = false;  ///< every command is waited for
  bool closed_ = false;
  BadIndex* bad_index_ = nullptr;
  std::recursive_mutex mutex_;

 private:
  const Device device_;
  const std::unique_ptr<DeviceAllocator> allocator_;  ///< outlives every tensor, as the device does
  void keep_bad_place();
  const CallPlace& place_of(uint32_t call) const;

  std::array<CallPlace, 1024> index_calls_;
  uint32_t index_call_ = 0;
  /// Of the index that went wrong, where its call is no longer among those.
  std::optional<CallPlace> bad_place_;
};

/// Devices announce themselves; they live until the program's end.
void register_accelerator(Accelerator& accelerator);
/// The device that `view` lies on.
Accelerator& device_of(const View& view);
/// Whether an environment variable is set to anything but 0.
bool is_switched_on(const char* variable);

}  // namespace weft::portable::host
