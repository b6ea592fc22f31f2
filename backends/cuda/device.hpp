// One GPU: its stream, its memory and its kernels. Its context is made at the first use, not when it is counted.
#pragma once

#include <atomic>

#include <cuda_runtime_api.h>

#include "../portable/host/accelerator.hpp"

namespace weft::cuda {

using portable::host::Argument;
using portable::host::Grid;
using portable::host::Kernel;
using portable::host::Module;

class CudaDevice final : public portable::host::Accelerator {
 public:
  explicit CudaDevice(int index);

  std::string describe();
  cudaStream_t stream() const { return stream_; }
  /// Memory for a library's intermediate results, of use in the stream's order; nullptr where there is none.
  void* workspace();
  static constexpr size_t workspace_bytes = size_t{32} << 20;

  // queue.cpp
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void copy_from(CudaDevice& source, void* to, const void* from, size_t bytes);
  bool fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) override;
  void launch(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) override;
  void synchronize() override;
  bool drain() noexcept override;
  /// To be called after commands were queued on the stream.
  void after_command();

  // device.cpp
  Kernel& find_kernel(Module module, const std::string& name) override;
  void* take_memory(size_t bytes) override;
  void return_memory(void* data) noexcept override;
  size_t total_memory() override;
  size_t free_memory() override;

  /// Before the runtime goes away; nothing is called on it afterwards.
  void close() noexcept { closed_ = true; }

 private:
  static constexpr size_t slot_bytes = size_t{256} << 10;
  static constexpr int slot_count = 32;
  struct StagingSlot {
    char* data = nullptr;
    cudaEvent_t done = nullptr;
    bool busy = false;
  };

  void open();
  void create_queue();
  StagingSlot& next_slot();

  std::atomic<bool> opened_ = false;
  cudaDeviceProp properties_ = {};
  cudaStream_t stream_ = nullptr;
  cudaEvent_t reached_ = nullptr;  ///< for streams that wait for this one
  std::array<StagingSlot, slot_count> slots_;
  int next_slot_ = 0;
  void* workspace_ = nullptr;
};

/// The GPU that `view` lies on.
inline CudaDevice& cuda_device_of(const View& view) {
  return static_cast<CudaDevice&>(portable::host::device_of(view));
}

/// Makes a device this thread's current one, and the former one again at the end.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;

 private:
  int before_ = -1;
};

/// DeviceError("cudaLaunchKernel failed on cuda:0 with code 700 (an illegal memory access was encountered)").
[[noreturn]] void raise_failure(const char* function, int code, const char* meaning, int device);
[[noreturn]] void raise_failure(const char* function, cudaError_t code, int device);

inline void check(cudaError_t code, const char* function, int device) {
  if (code != cudaSuccess) [[unlikely]]
    raise_failure(function, code, device);
}
/// WEFT_CUDA(device, cudaFree, pointer) calls and checks.
#define WEFT_CUDA(device, function, ...) ::weft::cuda::check(::function(__VA_ARGS__), #function, device)

// matmul.cpp
void matmul(const View& out, const View& a, const View& b, const View& bias);

}  // namespace weft::cuda
