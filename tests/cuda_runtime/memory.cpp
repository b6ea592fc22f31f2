#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>

#include "runtime.hpp"

namespace weft::testing::cuda {

namespace {

std::mutex mutex;
std::map<const char*, Memory>& memories() {
  static auto* const all = new std::map<const char*, Memory>;
  return *all;
}

hpu::HpuDevice& gpu_of(int index) { return *gpus()[static_cast<size_t>(index)]; }

void remember(void* base, size_t bytes, int gpu) {
  const std::lock_guard lock(mutex);
  memories()[static_cast<char*>(base)] = {static_cast<char*>(base), bytes, gpu};
}

/// Forgets an allocation by its first byte.
std::optional<Memory> forget(const void* base) {
  const std::lock_guard lock(mutex);
  const auto found = memories().find(static_cast<const char*>(base));
  if (found == memories().end()) return {};
  const Memory memory = found->second;
  memories().erase(found);
  return memory;
}

cudaError_t release(void* data, bool pinned) {
  if (data == nullptr) return cudaSuccess;
  const std::optional<Memory> memory = forget(data);
  if (!memory || (memory->gpu < 0) != pinned) return cudaErrorInvalidValue;
  for (size_t i = 0; i < gpus().size(); ++i) {
    if (pinned || memory->gpu == static_cast<int>(i)) drain(static_cast<int>(i));  // as CUDA does
  }
  gpu_of(pinned ? 0 : memory->gpu).return_memory(data, memory->bytes);
  return cudaSuccess;
}

/// The contents of a memory handle; another process opens the file through /proc.
struct SharedMemory {
  int process, file;
  size_t bytes;
  const void* base;  ///< tells two of them apart
};
static_assert(sizeof(SharedMemory) <= sizeof(cudaIpcMemHandle_t));

/// Memory of others, counted by how often it was opened.
struct Opened {
  SharedMemory shared;
  void* base;
  int times;
};
std::vector<Opened> opened;

}  // namespace

std::optional<Memory> memory_around(const void* pointer) {
  const std::lock_guard lock(mutex);
  auto found = memories().upper_bound(static_cast<const char*>(pointer));
  if (found == memories().begin()) return {};
  const Memory& memory = (--found)->second;
  if (static_cast<const char*>(pointer) >= memory.base + memory.bytes) return {};
  return memory;
}

}  // namespace weft::testing::cuda

using namespace weft;
using namespace weft::testing::cuda;

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return serve(__func__, [=] {
    if (bytes == 0) return cudaErrorInvalidValue;
    const int gpu = current_gpu();
    *data = gpu_of(gpu).take_memory(bytes);
    if (*data == nullptr) return cudaErrorMemoryAllocation;
    remember(*data, bytes, gpu);
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* data) {
  return serve(__func__, [=] { return release(data, false); });
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  return serve(__func__, [=] {
    *data = gpu_of(0).take_pinned(bytes);
    if (*data == nullptr) return cudaErrorMemoryAllocation;
    remember(*data, bytes, -1);
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* data) {
  return serve(__func__, [=] { return release(data, true); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return serve(__func__, [=] {
    *free = gpu_of(current_gpu()).free_memory();
    *total = gpu_of(current_gpu()).total_memory();
    return cudaSuccess;
  });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* data) {
  return serve(__func__, [=] {
    const std::optional<Memory> memory = memory_around(data);
    if (!memory || memory->gpu < 0 || memory->base != data) return cudaErrorInvalidValue;
    ze_ipc_mem_handle_t file = {};
    WEFT_ZE(memory->gpu, zeMemGetIpcHandle, gpu_of(memory->gpu).context(), data, &file);
    SharedMemory shared = {getpid(), -1, memory->bytes, data};
    std::memcpy(&shared.file, file.data, sizeof shared.file);
    *handle = {};
    std::memcpy(handle->reserved, &shared, sizeof shared);
    return cudaSuccess;
  });
}

cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle, unsigned) {
  return serve(__func__, [=] {
    SharedMemory shared = {};
    std::memcpy(&shared, handle.reserved, sizeof shared);
    if (shared.process == getpid()) return cudaErrorDeviceUninitialized;  // as CUDA answers the process that made it
    for (Opened& known : opened) {
      if (std::memcmp(&known.shared, &shared, sizeof shared) != 0 || known.times == 0) continue;
      ++known.times;
      *data = known.base;
      return cudaSuccess;
    }
    const std::string path = "/proc/" + std::to_string(shared.process) + "/fd/" + std::to_string(shared.file);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return cudaErrorInvalidResourceHandle;
    ze_ipc_mem_handle_t own = {};
    std::memcpy(own.data, &file, sizeof file);
    hpu::HpuDevice& gpu = gpu_of(current_gpu());
    WEFT_ZE(gpu.index(), zeMemOpenIpcHandle, gpu.context(), gpu.handle(), own, 0, data);
    remember(*data, shared.bytes, gpu.index());
    opened.push_back({shared, *data, 1});
    return cudaSuccess;
  });
}

cudaError_t cudaIpcCloseMemHandle(void* data) {
  return serve(__func__, [=] {
    for (Opened& known : opened) {
      if (known.base != data || known.times == 0) continue;
      if (--known.times > 0) return cudaSuccess;
      const std::optional<Memory> memory = forget(data);
      drain(memory->gpu);
      WEFT_ZE(memory->gpu, zeMemCloseIpcHandle, gpu_of(memory->gpu).context(), data);
      return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}

}  // extern "C"
