// Kernels by the names that nvcc's objects register at the program's start.
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "runtime.hpp"
#include "../hpu_driver/kernel.h"

namespace weft::testing::cuda {

namespace {

/// CUDA C Programming Guide, Technical Specifications per Compute Capability.
constexpr unsigned most_threads = 1024, most_threads_z = 64, most_blocks = 65535, most_blocks_x = 0x7fffffff;
constexpr size_t most_argument_bytes = 4096;

struct Registered {
  std::string name;
  std::vector<size_t> argument_bytes;
  bool ready = false;
};

std::mutex mutex;
std::map<const void*, Registered>& registered() {
  static auto* const all = new std::map<const void*, Registered>;
  return *all;
}

/// "weft::portable::unary_exp_f32(...)" is unary_exp_f32.
std::string plain_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  std::string_view name = status == 0 ? text.get() : mangled;
  name = name.substr(0, name.find('('));
  const size_t scope = name.rfind("::");
  return std::string(scope == std::string_view::npos ? name : name.substr(scope + 2));
}

const std::map<std::string, hpu::Module, std::less<>>& modules() {
  static const auto* const all = [] {
    auto* const found = new std::map<std::string, hpu::Module, std::less<>>;
    for (int i = 0; i < portable::host::module_count; ++i) {
      const auto module = static_cast<hpu::Module>(i);
      for (std::string& name : spirv::kernel_names(hpu::code_of(module))) found->emplace(std::move(name), module);
    }
    return found;
  }();
  return *all;
}

ze::ArgumentBytes find_argument_bytes() {
  using Find = ze_result_t(ZE_APICALL*)(ze_driver_handle_t, const char*, void**);
  const auto find = reinterpret_cast<Find>(
      dlsym(dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL), "zeDriverGetExtensionFunctionAddress"));
  ze_driver_handle_t driver = nullptr;
  uint32_t one = 1;
  hpu::api().zeDriverGet(&one, &driver);
  void* function = nullptr;
  if (find != nullptr) find(driver, ze::argument_bytes_name, &function);
  return reinterpret_cast<ze::ArgumentBytes>(function);
}

void read_arguments(Registered& kernel, ze_kernel_handle_t handle) {
  static const ze::ArgumentBytes read = find_argument_bytes();
  if (read == nullptr) return;
  uint32_t count = 0;
  read(handle, &count, nullptr);
  kernel.argument_bytes.resize(count);
  read(handle, &count, kernel.argument_bytes.data());
  kernel.ready = true;
}

bool is_allowed(const dim3& blocks, const dim3& threads) {
  return threads.x * threads.y * threads.z <= most_threads && threads.z <= most_threads_z && threads.x > 0 &&
         threads.y > 0 && threads.z > 0 && blocks.x > 0 && blocks.y > 0 && blocks.z > 0 && blocks.x <= most_blocks_x &&
         blocks.y <= most_blocks && blocks.z <= most_blocks;
}

/// WEFT_TEST_CUDA_WITHOUT=attention refuses kernels with this name prefix: a library must compute instead.
bool is_refused(const std::string& name) {
  static const char* const prefix = std::getenv("WEFT_TEST_CUDA_WITHOUT");
  return prefix != nullptr && name.starts_with(prefix);
}

cudaError_t launch(const void* function, const dim3& blocks, const dim3& threads, void** values, Stream& stream) {
  if (stream.gpu != current_gpu()) return cudaErrorInvalidResourceHandle;
  if (!is_allowed(blocks, threads)) return cudaErrorInvalidConfiguration;
  std::unique_lock lock(mutex);
  const auto found = registered().find(function);
  if (found == registered().end()) return cudaErrorInvalidDeviceFunction;
  Registered& known = found->second;
  if (is_refused(known.name)) return cudaErrorInvalidDeviceFunction;
  const auto module = modules().find(known.name);
  if (module == modules().end()) return cudaErrorInvalidDeviceFunction;
  hpu::Kernel& kernel = gpus()[static_cast<size_t>(stream.gpu)]->find_kernel(module->second, known.name);
  if (!known.ready) read_arguments(known, kernel.handle);
  if (!known.ready) return cudaErrorNotSupported;
  std::vector<hpu::Argument> arguments;
  size_t bytes = 0;
  for (const size_t size : known.argument_bytes) {
    arguments.push_back({size, values[arguments.size()]});
    bytes += size;
  }
  lock.unlock();
  if (bytes > most_argument_bytes) return cudaErrorLaunchOutOfResources;
  const hpu::Grid grid = {{blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z}};
  const auto kept = std::make_shared<portable::host::KeptArguments>(arguments.data(), arguments.size());
  stream.add([&kernel, grid, kept](hpu::HpuQueue& queue) {
    queue.launch(kernel, grid, kept->list().data(), kept->list().size());
  });
  return cudaSuccess;
}

}  // namespace

}  // namespace weft::testing::cuda

using namespace weft::testing::cuda;

extern "C" {

cudaError_t cudaLaunchKernel(const void* function, dim3 blocks, dim3 threads, void** values, size_t shared_bytes,
                             cudaStream_t handle) {
  return serve(__func__, [=] {
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (shared_bytes != 0) return cudaErrorNotSupported;
    return launch(function, blocks, threads, values, *stream);
  });
}

// Functions called by nvcc's objects (crt/host_runtime.h).

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }  // asked where nvcc's host code is not optimized

void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const std::lock_guard lock(mutex);
  registered()[function].name = plain_name(name);
}

// Launches in the language's own notation, of which Weft has none.
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t) { return 1; }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaErrorNotSupported; }
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaErrorNotSupported; }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) { return cudaErrorNotSupported; }

}  // extern "C"
