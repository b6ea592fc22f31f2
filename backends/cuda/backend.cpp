#include "../backend.hpp"
#include "../queued/stream_use.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "libraries/library.hpp"
#include "../portable/host/host.hpp"
#include "../../tensor/error.hpp"

namespace weft::cuda {

namespace {

std::vector<CudaDevice*>& all_devices() {
  static auto* devices = new std::vector<CudaDevice*>;  // static tensors may die after any static of ours
  return *devices;
}

class CudaBackend final : public QueuedBackend {
 public:
  CudaBackend() : QueuedBackend(DeviceType::cuda) {}
#if WEFT_HAS_CUDNN
  bool convolves_small_floats() override { return find_dnn() != nullptr; }
#endif
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
    register_device(*all_devices().back());
  }
  // After the runtime's own handlers, so it runs before them.
  std::atexit(close_devices);
  KernelTable& table = kernel_tables[static_cast<int>(DeviceType::cuda)];
  portable::host::fill_kernels(table);
  table.matmul = cuda::matmul;
  table.quantized_matmul = cuda::quantized_matmul;
  table.blockwise_matmul = cuda::blockwise_matmul;
#if WEFT_HAS_CUDNN
  table.convolution = cuda::convolution;
  table.attention = cuda::attention;
  table.attention_gradient = cuda::attention_gradient;
#endif
  note_uses_of(DeviceType::cuda);
  register_sharing(all_devices());
  static auto* backend = new CudaBackend;
  return backend;
}

}  // namespace weft::detail
