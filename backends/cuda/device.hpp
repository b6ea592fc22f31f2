// One GPU: its stream, its memory and its kernels. Its context is made at the first use, not when it is counted.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

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

  std::string describe() override;
  bool is_synchronous() const { return synchronous_; }
  /// Makes the context, unless it is there.
  void open();
  bool reaches(QueuedDevice&) override { return true; }  // the runtime finds a way

  Kernel& find_kernel(Module module, const std::string& name) override;
  bool sort_pairs(const portable::host::PairsToSort& pairs) override;  // sort.cpp
  void* take_memory(size_t bytes) override;
  void return_memory(void* data, size_t) noexcept override;
  void* take_pinned(size_t bytes) override;
  void return_pinned(void* data, size_t) noexcept override;
  size_t total_memory() override;
  size_t free_memory() override;

  /// Before the runtime goes away; nothing is called on it afterwards.
  void close() noexcept { closed_ = true; }

 protected:
  std::unique_ptr<CommandQueue> make_queue(int number) override;

 private:
  std::mutex mutex_;
  std::atomic<bool> opened_ = false;
  cudaDeviceProp properties_ = {};
};

/// The GPU of `view`.
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
[[noreturn]] void raise_failure(const char* function, cudaError_t code, int device, const std::string& details = {});

inline void check(cudaError_t code, const char* function, int device) {
  if (code != cudaSuccess) [[unlikely]]
    raise_failure(function, code, device);
}
/// WEFT_CUDA(device, cudaFree, pointer) calls and checks.
#define WEFT_CUDA(device, function, ...) ::weft::cuda::check(::function(__VA_ARGS__), #function, device)

/// So that tensors can be opened in other processes.
void register_sharing(const std::vector<CudaDevice*>& devices);

// matmul.cpp
void matmul(const View& out, const View& a, const View& b, const View& bias);
// coded.cpp
void quantized_matmul(const View& out, const View& x, const View& codes, const View& scale, const View& zero,
                      const View& bias, int64_t bits, int64_t group);
void blockwise_matmul(const View& out, const View& start, const View& a, const View& a_scale, const View& b,
                      const View& b_scale, int64_t a_rows, int64_t b_rows);
// convolution.cpp
void convolution(Convolution product, const View& out, const View& a, const View& b, const View& bias,
                 const ConvolutionSteps& steps);
// attention.cpp
void attention(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
               const AttentionPlan&);
void attention_gradient(const View& dq, const View& dk, const View& dv, const View& g, const View& out,
                        const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
                        const AttentionPlan&);

}  // namespace weft::cuda
