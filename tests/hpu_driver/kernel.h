// Kernels with their arguments, and the executor of launches.
#pragma once

#include <array>
#include <cstddef>

#include "memory.h"
#include "module.h"

namespace weft::testing::ze {

constexpr uint32_t max_group_size = 1024;
constexpr size_t max_local_bytes = 65536;

// Argument values, aligned for every parameter type.
struct ArgumentBlock {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines;

  std::byte* at(size_t offset) { return reinterpret_cast<std::byte*>(lines.data()) + offset; }
};

struct Kernel {
  std::shared_ptr<Module> module;
  const KernelInfo* info = nullptr;
  ArgumentBlock arguments;
  std::vector<size_t> local_sizes;
  std::vector<bool> is_set;
  std::array<uint32_t, 3> group_size{};
  std::mutex calls;
};

struct Launch {
  std::shared_ptr<Module> module;
  const KernelInfo* kernel;
  ArgumentBlock arguments;
  std::vector<size_t> local_sizes;
  std::array<uint32_t, 3> group_size;
  std::array<uint32_t, 3> group_count;
};

// Checks the kernel's arguments and captures them; the kernel may be changed afterwards.
ze_result_t capture_launch(Kernel& kernel, const Device* device, const ze_group_count_t& groups, Launch* launch,
                           std::vector<MemoryUse>* memory);

// For zeDriverGetExtensionFunctionAddress: the bytes of each argument of a kernel, so that launches that come without
// them can be served.
constexpr const char* argument_bytes_name = "weftKernelGetArgumentBytes";
using ArgumentBytes = ze_result_t(ZE_APICALL*)(ze_kernel_handle_t kernel, uint32_t* count, size_t* bytes);
ze_result_t ZE_APICALL kernel_get_argument_bytes(ze_kernel_handle_t handle, uint32_t* count, size_t* bytes);

// Runs all work-groups on the calling thread.
void run_launch(const Launch& launch);

}  // namespace weft::testing::ze
