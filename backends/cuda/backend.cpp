#include "../backend.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "device.hpp"
#include "../portable/host/host.hpp"
#include "../../tensor/error.hpp"

namespace weft::cuda {

namespace {

std::vector<CudaDevice*>& all_devices() {
  static auto* devices = new std::vector<CudaDevice*>;  // static tensors may die after any static of ours
  return *devices;
}

class CudaBackend final : public Backend {
 public:
  int device_count() override { return static_cast<int>(all_devices().size()); }
  std::string describe(int index) override { return at(index).describe(); }
  void upload(int index, void* device_data, const void* host_data, size_t bytes) override {
    at(index).upload(device_data, host_data, bytes);
  }
  void download(int index, void* host_data, const void* device_data, size_t bytes) override {
    at(index).download(host_data, device_data, bytes);
  }
  void copy(int to_index, void* to, int from_index, const void* from, size_t bytes) override {
    if (to_index == from_index) at(to_index).copy(to, from, bytes);
    else at(to_index).copy_from(at(from_index), to, from, bytes);
  }
  void synchronize(int index) override { at(index).synchronize(); }

 private:
  static CudaDevice& at(int index) {
    auto& devices = all_devices();
    if (index < 0 || index >= static_cast<int>(devices.size())) {
      raise<DeviceError>({.op = "cuda", .problem = fmt::format("there is no device cuda:{}", index)}, Location::none());
    }
    return *devices[static_cast<size_t>(index)];
  }
};

void close_devices() {
  for (CudaDevice* device : all_devices()) device->close();
}

}  // namespace

}  // namespace weft::cuda

namespace weft::detail {

Backend* start_cuda(std::string& why) {
  using namespace cuda;
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess || count <= 0) {  // no driver, or no GPU
    why = fmt::format("CUDA: {}", cudaGetErrorString(code != cudaSuccess ? code : cudaErrorNoDevice));
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
      why += fmt::format(" (CUDA_VISIBLE_DEVICES is \"{}\")", visible);
    }
    cudaGetLastError();
    return nullptr;
  }
  for (int index = 0; index < count && index < 256; ++index) {
    all_devices().push_back(new CudaDevice(index));
    register_accelerator(*all_devices().back());
  }
  // After the runtime's own handlers, so it runs before them.
  std::atexit(close_devices);
  KernelTable& table = kernel_tables[static_cast<int>(DeviceType::cuda)];
  portable::host::fill_kernels(table);
  table.matmul = cuda::matmul;
  static auto* backend = new CudaBackend;
  return backend;
}

}  // namespace weft::detail
