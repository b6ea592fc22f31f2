#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "runtime.hpp"

namespace weft::testing::cuda {

thread_local bool in_host_function = false;
thread_local int capturing = 0;

namespace {

thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> lasting_error = cudaSuccess;
const pid_t program = getpid();

/// After these, CUDA's context is of no more use.
bool lasts(cudaError_t code) { return code >= cudaErrorIllegalAddress && code <= cudaErrorLaunchFailure; }

/// The call that fails.
struct Failure {
  std::string function;
  cudaError_t code = cudaSuccess;
  long before = 0;  ///< calls that succeed
  bool always = false;

  Failure() {
    const char* text = std::getenv("WEFT_TEST_CUDA_FAIL");
    const char* const end = text == nullptr ? nullptr : std::strchr(text, ':');
    if (end == nullptr) return;
    function.assign(text, end);
    char* rest = nullptr;
    code = static_cast<cudaError_t>(std::strtol(end + 1, &rest, 10));
    if (*rest == ':') before = std::strtol(rest + 1, &rest, 10);
    always = std::strcmp(rest, ":once") != 0;
  }
};
std::mutex failure_mutex;
Failure& failure() {
  static auto* const one = new Failure;
  return *one;
}

cudaError_t failure_of(const char* function) {
  const std::lock_guard lock(failure_mutex);
  Failure& next = failure();
  if (next.function != function || next.before-- > 0) return cudaSuccess;
  if (!next.always) next.function.clear();
  if (lasts(next.code)) lasting_error = next.code;
  return next.code;
}

/// CUDA Runtime API, cudaStreamCaptureModeThreadLocal: calls that are not allowed on a capturing thread.
bool breaks_captures(std::string_view function) {
  static const std::set<std::string_view> functions = {
      "cudaMalloc",      "cudaFree",           "cudaHostAlloc",        "cudaFreeHost",   "cudaStreamSynchronize",
      "cudaStreamQuery", "cudaEventQuery",     "cudaEventSynchronize", "cudaMemGetInfo", "cudaStreamCreateWithFlags",
      "cudaEventRecord", "cudaIpcGetMemHandle"};
  return functions.contains(function);
}

}  // namespace

bool tells() {
  static const bool on = std::getenv("WEFT_TEST_CUDA_LOG") != nullptr;
  return on;
}

cudaError_t keep(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  if (tells() && code != cudaSuccess && code != cudaErrorNotReady) {
    std::fprintf(stderr, "[test cuda] %s\n", cudaGetErrorString(code));
  }
  return code;
}

cudaError_t refusal(const char* function) {
  if (tells()) std::fprintf(stderr, "[test cuda] %s\n", function);
  if (const cudaError_t code = lasting_error.load(); code != cudaSuccess) return code;
  if (getpid() != program) return cudaErrorInitializationError;
  if (in_host_function) return cudaErrorNotPermitted;
  if (capturing > 0 && breaks_captures(function)) return cudaErrorStreamCaptureUnsupported;
  return failure_of(function);
}

cudaError_t code_of(const DeviceError& failure) {
  if (tells()) std::fprintf(stderr, "[test cuda] %s\n", failure.what());
  for (hpu::HpuDevice* gpu : gpus()) {
    if (hpu::api().zeDeviceGetStatus(gpu->handle()) == ZE_RESULT_SUCCESS) continue;
    lasting_error = cudaErrorLaunchFailure;
    return cudaErrorLaunchFailure;
  }
  return cudaErrorInvalidValue;
}

}  // namespace weft::testing::cuda

using namespace weft::testing::cuda;

extern "C" {

void weft_test_cuda_fail(const char* function, int code, long before) {
  const std::lock_guard lock(failure_mutex);
  Failure& next = failure();
  next.function = function;
  next.code = static_cast<cudaError_t>(code);
  next.before = before;
  next.always = false;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, lasting_error.load()); }

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return "an error of the test runtime";
  }
}

}  // extern "C"
