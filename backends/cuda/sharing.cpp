#include <cstring>

#include "device.hpp"
#include "../memory_sharing.hpp"
#include "../queued/allocator.hpp"

namespace weft::cuda {

namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(SharedName));

/// The runtime counts how often a process has opened a handle.
class CudaSharing final : public MemorySharing {
 public:
  explicit CudaSharing(const std::vector<CudaDevice*>& devices) : devices_(devices) {}

  Exported share(int index, const void* data) override {
    CudaDevice& device = *devices_[static_cast<size_t>(index)];
    const auto memory = device.allocator().allocation_around(data);
    if (memory.base == nullptr) return {};
    device.require_open();
    const CurrentDevice current(index);
    cudaIpcMemHandle_t handle = {};
    WEFT_CUDA(index, cudaIpcGetMemHandle, &handle, memory.base);
    Exported out{memory.base, memory.bytes, -1, {}};
    std::memcpy(out.name.data(), &handle, sizeof handle);
    return out;
  }

  void* open(int index, const SharedName& name, size_t) override {
    CudaDevice& device = *devices_[static_cast<size_t>(index)];
    device.require_open();
    device.open();
    const CurrentDevice current(index);
    cudaIpcMemHandle_t handle = {};
    std::memcpy(&handle, name.data(), sizeof handle);
    void* base = nullptr;
    WEFT_CUDA(index, cudaIpcOpenMemHandle, &base, handle, cudaIpcMemLazyEnablePeerAccess);
    return base;
  }

  void close(int index, void* base, size_t) noexcept override {
    CudaDevice& device = *devices_[static_cast<size_t>(index)];
    if (!device.drain()) return;
    const CurrentDevice current(index);
    cudaIpcCloseMemHandle(base);
  }

 private:
  const std::vector<CudaDevice*>& devices_;
};

}  // namespace

void register_sharing(const std::vector<CudaDevice*>& devices) {
  register_memory_sharing(DeviceType::cuda, *new CudaSharing(devices));
}

}  // namespace weft::cuda
