// One Level Zero device: its queue, its memory and its kernels.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "event.hpp"
#include "host_calls.hpp"
#include "loader.hpp"
#include "program_folder.hpp"
#include "spirv.hpp"
#include "../portable/host/accelerator.hpp"

namespace weft::hpu {

using portable::host::Argument;
using portable::host::Grid;
using portable::host::Module;

/// Of kernels; part of the key of cached programs.
inline constexpr const char* build_flags = "";

/// The portable kernels of a module, as SPIR-V.
spirv::Words code_of(Module module);

struct Kernel : portable::host::Kernel {
  ze_module_handle_t module = nullptr;  ///< has this kernel alone
  ze_kernel_handle_t handle = nullptr;
  std::mutex mutex;  ///< setting arguments and launching must not be torn apart
  std::array<uint32_t, 3> group_size = {0, 0, 0};

  /// Of device number `device`.
  void append_to(ze_command_list_handle_t list, int device, const Grid& grid, const Argument* arguments, size_t count);
};

class HpuDevice final : public portable::host::Accelerator {
 public:
  HpuDevice(ze_driver_handle_t driver, ze_context_handle_t context, ze_device_handle_t handle, int index);

  std::string describe() override;
  ze_device_handle_t handle() const { return handle_; }
  ze_context_handle_t context() const { return context_; }
  EventPool& events(bool timed) { return timed ? timed_events_ : events_; }
  HostCalls& host_calls() { return host_calls_; }
  bool is_synchronous() const { return synchronous_; }
  /// Whether each queue has a thread that launches.
  bool has_workers() const { return workers_; }
  /// The longest pattern that its fill command repeats.
  size_t longest_pattern() const { return longest_pattern_; }
  /// The physical queue, of those there are, on which queue `number` runs.
  ze_command_queue_desc_t queue_description(int number) const;
  /// Milliseconds between two of its timestamps, of which the first may be before the clock wrapped.
  double milliseconds_between(uint64_t first, uint64_t second) const;
  /// Milliseconds after which its timestamps begin anew; 0 for those of 64 bits.
  double clock_period() const;
  /// Memory of the host that the device reaches; OutOfMemoryError.
  void* host_memory(size_t bytes);

  bool reaches(QueuedDevice& other) override;

  // device.cpp
  void* take_memory(size_t bytes) override;
  void return_memory(void* data, size_t) noexcept override { api().zeMemFree(context_, data); }
  void* take_pinned(size_t bytes) override;
  void return_pinned(void* data, size_t) noexcept override { api().zeMemFree(context_, data); }
  size_t total_memory() override { return total_memory_; }
  size_t free_memory() override;

  // module.cpp
  Kernel& find_kernel(Module module, const std::string& name) override;

  /// Before the driver goes away; nothing is called on it afterwards.
  void close() noexcept;

 protected:
  std::unique_ptr<CommandQueue> make_queue(int number) override;

 private:
  void read_properties(ze_driver_handle_t driver);
  ze_module_handle_t build_kernel(Module module, const std::string& name);
  ze_module_handle_t make_module(ze_module_format_t format, std::span<const uint8_t> code, std::string* problem);
  void keep_program(const std::string& key, ze_module_handle_t module);

  const ze_context_handle_t context_;
  const ze_device_handle_t handle_;
  std::string name_;
  std::string build_;  ///< what native code depends on besides its SPIR-V
  size_t total_memory_ = 0, max_allocation_ = 0;
  size_t longest_pattern_ = 0;
  uint32_t queue_ordinal_ = 0, queue_count_ = 1;
  uint64_t timer_resolution_ = 1;  ///< ns of a tick
  uint32_t timestamp_bits_ = 64;
  bool workers_ = false;

  EventPool events_, timed_events_;
  HostCalls host_calls_;
  std::mutex kernel_mutex_;
  std::unordered_map<std::string, Kernel> kernels_;
  ProgramFolder programs_{program_folder()};
};

/// So that tensors can be opened in other processes.
void register_sharing(const std::vector<HpuDevice*>& devices);

}  // namespace weft::hpu
