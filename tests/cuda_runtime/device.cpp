#include <algorithm>
#include <cstring>

#include "runtime.hpp"

namespace weft::testing::cuda {

namespace {

thread_local int current = 0;

std::vector<hpu::HpuDevice*> find_gpus() {
  std::vector<hpu::HpuDevice*> found;
  if (hpu::find_api() == nullptr) return found;
  const hpu::Api& api = hpu::api();
  ze_driver_handle_t driver = nullptr;
  uint32_t one = 1, count = 0;
  if (api.zeDriverGet(&one, &driver) != ZE_RESULT_SUCCESS || one == 0) return found;
  api.zeDeviceGet(driver, &count, nullptr);
  std::vector<ze_device_handle_t> handles(count);
  api.zeDeviceGet(driver, &count, handles.data());
  const ze_context_desc_t description = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  ze_context_handle_t context = nullptr;
  if (api.zeContextCreate(driver, &description, &context) != ZE_RESULT_SUCCESS) return found;
  for (ze_device_handle_t handle : handles) {
    found.push_back(new hpu::HpuDevice(driver, context, handle, static_cast<int>(found.size())));
  }
  return found;
}

}  // namespace

const std::vector<hpu::HpuDevice*>& gpus() {
  static const auto* const all = new std::vector<hpu::HpuDevice*>(find_gpus());
  return *all;
}

int current_gpu() { return current; }

}  // namespace weft::testing::cuda

using namespace weft::testing::cuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return serve(__func__, [=] {
    *count = static_cast<int>(gpus().size());
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return serve(__func__, [=] {
    *device = current;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return serve(__func__, [=] {
    if (device < 0 || static_cast<size_t>(device) >= gpus().size()) return cudaErrorInvalidDevice;
    current = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return serve(__func__, [=] {
    if (device < 0 || static_cast<size_t>(device) >= gpus().size()) return cudaErrorInvalidDevice;
    *properties = {};
    std::strcpy(properties->name, "test GPU");
    properties->totalGlobalMem = gpus()[static_cast<size_t>(device)]->total_memory();
    properties->major = 9;
    properties->warpSize = 32;
    return cudaSuccess;
  });
}

}  // extern "C"
