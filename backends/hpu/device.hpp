// One Level Zero device: its queue, its memory and its kernels.
#pragma once

#include <array>
#include <deque>
#include <string>

#include "loader.hpp"
#include "../portable/host/accelerator.hpp"

namespace weft::hpu {

using portable::host::Argument;
using portable::host::Grid;
using portable::host::Module;

struct Kernel : portable::host::Kernel {
  ze_module_handle_t module = nullptr;  ///< has this kernel alone
  ze_kernel_handle_t handle = nullptr;
  std::array<uint32_t, 3> group_size = {0, 0, 0};
};

/// Commands run in the order in which they are appended. All functions may be called by any thread.
class HpuDevice final : public portable::host::Accelerator {
 public:
  HpuDevice(ze_context_handle_t context, ze_device_handle_t handle, int index);

  const std::string& name() const { return name_; }
  ze_device_handle_t handle() const { return handle_; }

  // queue.cpp
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  bool fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) override;
  void launch(portable::host::Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) override;
  void synchronize() override;
  bool drain() noexcept override;

  // device.cpp
  void* take_memory(size_t bytes) override;
  void return_memory(void* data) noexcept override { api().zeMemFree(context_, data); }
  size_t total_memory() override { return total_memory_; }
  size_t free_memory() override;

  // module.cpp
  Kernel& find_kernel(Module module, const std::string& name) override;

  /// Before the driver goes away; nothing is called on it afterwards.
  void close() noexcept;

 private:
  static constexpr size_t slot_bytes = size_t{128} << 10;
  static constexpr int slot_count = 32;
  struct StagingSlot {
    char* data = nullptr;
    ze_event_handle_t done = nullptr;
    bool busy = false;
  };

  void read_properties();
  void create_queue();
  void order();
  void after_command();
  void wait(ze_event_handle_t event);
  void finish();
  StagingSlot& next_slot();
  /// Memory of the host that the device reaches; OutOfMemoryError.
  void* host_memory(size_t bytes);
  ze_event_handle_t create_event(uint32_t number);
  ze_module_handle_t build_kernel(Module module, const std::string& name);

  const ze_context_handle_t context_;
  const ze_device_handle_t handle_;
  std::string name_;
  size_t total_memory_ = 0, max_allocation_ = 0, max_fill_pattern_ = 0;
  uint32_t queue_ordinal_ = 0;

  ze_command_list_handle_t list_ = nullptr;
  ze_event_pool_handle_t events_ = nullptr;
  ze_event_handle_t done_ = nullptr;
  bool pending_ = false;
  char* staging_ = nullptr;
  std::array<StagingSlot, slot_count> slots_;
  int next_slot_ = 0;

  std::deque<Kernel> kernels_;
};

}  // namespace weft::hpu
