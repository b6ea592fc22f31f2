// Level Zero's handles of memory: the first four bytes are a file descriptor of the process that made it, which the
// other one replaces by its own (Programming Guide, Inter-Process Communication).
#include <cstring>

#include "device.hpp"
#include "../memory_sharing.hpp"
#include "../queued/allocator.hpp"

namespace weft::hpu {

namespace {

static_assert(sizeof(ze_ipc_mem_handle_t) == sizeof(SharedName));

class HpuSharing final : public MemorySharing {
 public:
  explicit HpuSharing(const std::vector<HpuDevice*>& devices) : devices_(devices) {}

  Exported share(int index, const void* data) override {
    HpuDevice& device = *devices_[static_cast<size_t>(index)];
    const auto memory = device.allocator().allocation_around(data);
    if (memory.base == nullptr) return {};
    device.require_open();
    ze_ipc_mem_handle_t handle = {};
    WEFT_ZE(index, zeMemGetIpcHandle, device.context(), memory.base, &handle);
    Exported out{memory.base, memory.bytes, -1, {}};
    std::memcpy(&out.descriptor, handle.data, sizeof out.descriptor);
    std::memcpy(out.name.data(), handle.data, out.name.size());
    return out;
  }

  void* open(int index, const SharedName& name, size_t) override {
    HpuDevice& device = *devices_[static_cast<size_t>(index)];
    device.require_open();
    ze_ipc_mem_handle_t handle = {};
    std::memcpy(handle.data, name.data(), name.size());
    void* base = nullptr;
    WEFT_ZE(index, zeMemOpenIpcHandle, device.context(), device.handle(), handle, 0, &base);
    return base;
  }

  void close(int index, void* base, size_t) noexcept override {
    HpuDevice& device = *devices_[static_cast<size_t>(index)];
    if (device.drain()) api().zeMemCloseIpcHandle(device.context(), base);
  }

 private:
  const std::vector<HpuDevice*>& devices_;
};

}  // namespace

void register_sharing(const std::vector<HpuDevice*>& devices) {
  register_memory_sharing(DeviceType::hpu, *new HpuSharing(devices));
}

}  // namespace weft::hpu
