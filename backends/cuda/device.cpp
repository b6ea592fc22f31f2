#include "device.hpp"

#include <cstring>

#include <fmt/format.h>

#include "kernels/modules.hpp"
#include "queue.hpp"
#include "../queued/allocator.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/settings.hpp"

namespace weft::cuda {

#define WEFT_MODULE(name) extern const KernelEntry name##_kernels[];
WEFT_PORTABLE_MODULES(WEFT_MODULE)
#undef WEFT_MODULE

namespace {

constexpr const KernelEntry* lists[] = {
#define WEFT_MODULE(name) name##_kernels,
    WEFT_PORTABLE_MODULES(WEFT_MODULE)
#undef WEFT_MODULE
};
static_assert(std::size(lists) == portable::host::module_count);

/// Errors after which every further call fails, and which an earlier command may have caused.
bool is_lasting(cudaError_t code) {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void raise_text(const char* function, int code, const char* meaning, int device, const char* remedy,
                             const std::string& details = {}) {
  const CallPlace place = detail::current_call;
  raise<DeviceError>({.op = place.op != nullptr ? place.entry : "cuda",
                      .problem = fmt::format("{} failed on cuda:{} with code {} ({})", function, device, code, meaning),
                      .details = details,
                      .remedy = remedy},
                     place.where);
}

}  // namespace

void raise_failure(const char* function, int code, const char* meaning, int device) {
  raise_text(function, code, meaning, device, "");
}

void raise_failure(const char* function, cudaError_t code, int device, const std::string& details) {
  cudaGetLastError();  // one that does not last is told once
  const char* remedy = "";
  if (is_lasting(code))
    remedy = "start the program anew; with WEFT_CUDA_SYNC=1 the command that failed is the one named";
  if (code == cudaErrorNoKernelImageForDevice) remedy = "build with CMAKE_CUDA_ARCHITECTURES of this GPU";
  raise_text(function, static_cast<int>(code), cudaGetErrorString(code), device, remedy, details);
}

CurrentDevice::CurrentDevice(int index) {
  int now = -1;
  WEFT_CUDA(index, cudaGetDevice, &now);
  if (now == index) return;
  WEFT_CUDA(index, cudaSetDevice, index);
  before_ = now;
}

CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) cudaSetDevice(before_);
}

CudaDevice::CudaDevice(int index) : Accelerator(Device(DeviceType::cuda, index)) {
  simd_width_ = 32;
  synchronous_ = detail::is_switched_on("WEFT_CUDA_SYNC");
  repeats_commands_ = !synchronous_;
}

void CudaDevice::open() {
  require_open();
  if (opened_.load(std::memory_order_acquire)) [[likely]]
    return;
  const std::lock_guard lock(mutex_);
  if (opened_.load(std::memory_order_relaxed)) return;
  const CurrentDevice current(index());
  WEFT_CUDA(index(), cudaSetDevice, index());  // makes the context, which device 0 may still lack
  WEFT_CUDA(index(), cudaGetDeviceProperties, &properties_, index());
  opened_.store(true, std::memory_order_release);
}

std::string CudaDevice::describe() {
  open();
  return fmt::format("{}, {:.1f} GiB", properties_.name, static_cast<double>(properties_.totalGlobalMem) / (1 << 30));
}

Kernel& CudaDevice::find_kernel(Module module, const std::string& name) {
  for (const KernelEntry* entry = lists[static_cast<int>(module)]; entry->name != nullptr; ++entry) {
    if (name != entry->name) continue;
    auto* kernel = new CudaKernel;  // asked for once in a program's life, and kept
    kernel->function = entry->function;
    return *kernel;
  }
  raise<DeviceError>({.op = "cuda", .problem = fmt::format("there is no kernel {}", name)}, Location::none());
}

std::unique_ptr<CommandQueue> CudaDevice::make_queue(int number) {
  open();
  return std::make_unique<CudaQueue>(*this, number);
}

void* CudaDevice::take_memory(size_t bytes) {
  open();
  const CurrentDevice current(index());
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes);
  if (code == cudaSuccess) return data;
  if (code != cudaErrorMemoryAllocation) raise_failure("cudaMalloc", code, index());
  cudaGetLastError();
  return nullptr;
}

void CudaDevice::return_memory(void* data, size_t) noexcept {
  if (!closed_) cudaFree(data);
}

void* CudaDevice::take_pinned(size_t bytes) {
  open();
  void* data = nullptr;
  if (cudaHostAlloc(&data, bytes, cudaHostAllocPortable) == cudaSuccess) return data;
  cudaGetLastError();
  return nullptr;
}

void CudaDevice::return_pinned(void* data, size_t) noexcept {
  if (!closed_) cudaFreeHost(data);
}

size_t CudaDevice::total_memory() {
  open();
  return properties_.totalGlobalMem;
}

size_t CudaDevice::free_memory() {
  open();
  const CurrentDevice current(index());
  size_t free = 0, total = 0;
  WEFT_CUDA(index(), cudaMemGetInfo, &free, &total);
  return free;
}

}  // namespace weft::cuda
