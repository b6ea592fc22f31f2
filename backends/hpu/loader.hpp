// The Level Zero API, through the loader library that is opened at run time.
#pragma once

#include <level_zero/ze_api.h>
#include <level_zero/zes_api.h>

#include <string>

#include "../../tensor/device.hpp"

namespace weft::hpu {

// clang-format off
#define WEFT_ZE_FUNCTIONS(X) \
  X(zeInit) X(zeDriverGet) X(zeDriverGetApiVersion) X(zeDeviceGet) X(zeDeviceGetProperties) \
  X(zeDeviceGetComputeProperties) X(zeDeviceGetModuleProperties) X(zeDeviceGetMemoryProperties) \
  X(zeDeviceGetCommandQueueGroupProperties) X(zeDeviceCanAccessPeer) X(zeDeviceGetStatus) \
  X(zeContextCreate) X(zeContextDestroy) X(zeCommandListCreateImmediate) X(zeCommandListCreate) \
  X(zeCommandListClose) X(zeCommandListAppendEventReset) X(zeCommandQueueCreate) X(zeCommandQueueDestroy) \
  X(zeCommandQueueExecuteCommandLists) \
  X(zeCommandListDestroy) X(zeCommandListAppendBarrier) X(zeCommandListAppendMemoryCopy) \
  X(zeCommandListAppendMemoryFill) X(zeCommandListAppendLaunchKernel) X(zeEventPoolCreate) X(zeEventPoolDestroy) \
  X(zeEventCreate) X(zeEventDestroy) X(zeEventHostSynchronize) X(zeEventHostReset) X(zeEventHostSignal) \
  X(zeEventQueryStatus) X(zeEventQueryKernelTimestamp) X(zeMemAllocDevice) \
  X(zeMemAllocHost) X(zeMemFree) X(zeModuleCreate) X(zeModuleDestroy) X(zeModuleBuildLogGetString) \
  X(zeModuleBuildLogDestroy) X(zeModuleGetNativeBinary) X(zeDriverGetProperties) \
  X(zeMemGetIpcHandle) X(zeMemOpenIpcHandle) X(zeMemCloseIpcHandle) X(zeKernelCreate) X(zeKernelDestroy) X(zeKernelSetArgumentValue) X(zeKernelSetGroupSize)
// clang-format on

struct Api {
#define WEFT_ZE_POINTER(name) decltype(&::name) name;
  WEFT_ZE_FUNCTIONS(WEFT_ZE_POINTER)
#undef WEFT_ZE_POINTER
  /// Of the management API; null where the loader has none.
  decltype(&::zesDeviceEnumMemoryModules) zesDeviceEnumMemoryModules;
  decltype(&::zesMemoryGetState) zesMemoryGetState;
};

/// The functions, or nullptr without a loader or driver. The result is cached.
const Api* find_api();
/// Why there are none, then.
const std::string& why_no_api();
/// As above, once it is known to be there.
const Api& api();

/// DeviceError("zeMemAllocDevice failed on hpu:0: ...").
[[noreturn]] void raise_failure(const char* function, ze_result_t code, int device, const std::string& details = {});

inline void check(ze_result_t code, const char* function, int device) {
  if (code != ZE_RESULT_SUCCESS) [[unlikely]]
    raise_failure(function, code, device);
}
/// WEFT_ZE(device, zeMemFree, context, pointer) calls and checks.
#define WEFT_ZE(device, function, ...) ::weft::hpu::check(::weft::hpu::api().function(__VA_ARGS__), #function, device)

}  // namespace weft::hpu
