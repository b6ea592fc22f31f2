#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "event.h"
#include "kernel.h"
#include "memory.h"
#include "tables.h"
#include "wrong.h"

namespace weft::testing::ze {
namespace {

struct Driver {};

// Driver and devices exist from the first zeInit to the end of the process.
struct Hardware {
  ze_driver_handle_t driver = nullptr;
  std::vector<ze_device_handle_t> devices;

  Hardware() {
    handles<Driver>().insert(std::make_shared<Driver>(), &driver);
    for (uint32_t i = 0; i < config().device_count; ++i) {
      ze_device_handle_t handle = nullptr;
      handles<Device>().insert(std::make_shared<Device>(Device{i}), &handle);
      devices.push_back(handle);
    }
  }
};

Hardware& hardware() {
  static auto* instance = new Hardware;
  return *instance;
}

ze_result_t ZE_APICALL init(ze_init_flags_t) {
  if (is_to_fail("zeInit")) return ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS;
  hardware();
  return ZE_RESULT_SUCCESS;
}

// The two-call protocol of all enumerations: the count first, then the handles.
template <class Handle>
ze_result_t enumerate(const std::vector<Handle>& all, uint32_t* count, Handle* out) {
  if (!count) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  auto total = static_cast<uint32_t>(all.size());
  if (*count == 0 || *count > total) *count = total;
  if (out) std::copy_n(all.begin(), *count, out);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL driver_get(uint32_t* count, ze_driver_handle_t* drivers) {
  return enumerate<ze_driver_handle_t>({hardware().driver}, count, drivers);
}

ze_result_t ZE_APICALL driver_get_api_version(ze_driver_handle_t, ze_api_version_t* version) {
  *version = static_cast<ze_api_version_t>(config().api_version);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL driver_get_properties(ze_driver_handle_t, ze_driver_properties_t* properties) {
  properties->uuid = {};
  properties->driverVersion = config().driver_version;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL driver_get_ipc_properties(ze_driver_handle_t, ze_driver_ipc_properties_t* properties) {
  properties->flags = ZE_IPC_PROPERTY_FLAG_MEMORY;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL driver_get_extensions(ze_driver_handle_t, uint32_t* count,
                                             ze_driver_extension_properties_t* out) {
  std::vector<ze_driver_extension_properties_t> extensions(1);
  std::snprintf(extensions[0].name, sizeof extensions[0].name, "%s", ZE_RELAXED_ALLOCATION_LIMITS_EXP_NAME);
  extensions[0].version = ZE_RELAXED_ALLOCATION_LIMITS_EXP_VERSION_1_0;
  return enumerate(extensions, count, out);
}

ze_result_t ZE_APICALL driver_get_extension_function(ze_driver_handle_t, const char* name, void** function) {
  if (!name || !function) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (std::strcmp(name, argument_bytes_name) != 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *function = reinterpret_cast<void*>(kernel_get_argument_bytes);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_get(ze_driver_handle_t, uint32_t* count, ze_device_handle_t* devices) {
  return enumerate(hardware().devices, count, devices);
}

ze_result_t ZE_APICALL device_get_sub_devices(ze_device_handle_t, uint32_t* count, ze_device_handle_t*) {
  *count = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_get_properties(ze_device_handle_t handle, ze_device_properties_t* p) {
  auto device = handles<Device>().find(handle);
  if (!device) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  constexpr uint64_t nanoseconds_per_second = 1000000000;
  bool in_cycles = p->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
  p->type = ZE_DEVICE_TYPE_GPU;
  p->vendorId = 0x57EF;
  p->deviceId = 1;
  p->flags = 0;
  p->subdeviceId = 0;
  p->coreClockRate = 1000;
  p->maxMemAllocSize = config().max_alloc_bytes;
  p->maxHardwareContexts = 1;
  p->maxCommandQueuePriority = 0;
  p->numThreadsPerEU = 1;
  p->physicalEUSimdWidth = config().simd_width;
  p->numEUsPerSubslice = 1;
  p->numSubslicesPerSlice = 1;
  p->numSlices = 1;
  p->timerResolution = in_cycles ? nanoseconds_per_second / timestamp_period_ns : timestamp_period_ns;
  p->timestampValidBits = config().timestamp_bits;
  p->kernelTimestampValidBits = config().timestamp_bits;
  p->uuid = {};
  p->uuid.id[0] = static_cast<uint8_t>(device->index + 1);
  std::snprintf(p->name, sizeof p->name, "Weft test device %u", device->index);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_get_compute_properties(ze_device_handle_t, ze_device_compute_properties_t* p) {
  p->maxTotalGroupSize = max_group_size;
  p->maxGroupSizeX = p->maxGroupSizeY = p->maxGroupSizeZ = max_group_size;
  p->maxGroupCountX = p->maxGroupCountY = p->maxGroupCountZ = UINT32_MAX;
  p->maxSharedLocalMemory = max_local_bytes;
  p->numSubGroupSizes = 1;
  p->subGroupSizes[0] = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_get_module_properties(ze_device_handle_t, ze_device_module_properties_t* p) {
  if (is_to_fail("zeDeviceGetModuleProperties")) return ZE_RESULT_ERROR_DEVICE_LOST;
  p->spirvVersionSupported = ZE_MAKE_VERSION(1, 2);
  p->flags = ZE_DEVICE_MODULE_FLAG_FP64 | ZE_DEVICE_MODULE_FLAG_INT64_ATOMICS;
  p->fp16flags = 0;
  p->fp32flags = p->fp64flags =
      ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_INF_NAN | ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST | ZE_DEVICE_FP_FLAG_FMA;
  p->maxArgumentsSize = 2048;
  p->printfBufferSize = 0;
  p->nativeKernelSupported = {};
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_get_memory_properties(ze_device_handle_t, uint32_t* count,
                                                    ze_device_memory_properties_t* p) {
  if (p && *count) {
    p->flags = 0;
    p->maxClockRate = 0;
    p->maxBusWidth = 64;
    p->totalSize = config().memory_bytes;
    std::snprintf(p->name, sizeof p->name, "host memory");
  }
  *count = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_get_memory_access(ze_device_handle_t, ze_device_memory_access_properties_t* p) {
  constexpr ze_memory_access_cap_flags_t all = ZE_MEMORY_ACCESS_CAP_FLAG_RW | ZE_MEMORY_ACCESS_CAP_FLAG_ATOMIC;
  p->hostAllocCapabilities = p->deviceAllocCapabilities = p->sharedSingleDeviceAllocCapabilities = all;
  p->sharedCrossDeviceAllocCapabilities = p->sharedSystemAllocCapabilities = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_get_queue_groups(ze_device_handle_t, uint32_t* count,
                                               ze_command_queue_group_properties_t* p) {
  if (p && *count) {
    p->flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY |
               ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COOPERATIVE_KERNELS;
    p->maxMemoryFillPatternSize = config().fill_pattern_bytes;
    p->numQueues = config().queue_count;
  }
  *count = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_get_p2p_properties(ze_device_handle_t, ze_device_handle_t,
                                                 ze_device_p2p_properties_t* p) {
  p->flags = config().peer_access ? ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS | ZE_DEVICE_P2P_PROPERTY_FLAG_ATOMICS : 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_can_access_peer(ze_device_handle_t device, ze_device_handle_t peer, ze_bool_t* value) {
  *value = device == peer || config().peer_access;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_get_status(ze_device_handle_t) {
  return device_lost() ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL device_get_timestamps(ze_device_handle_t, uint64_t* host, uint64_t* device) {
  *host = host_nanoseconds();
  *device = device_ticks();
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL context_create(ze_driver_handle_t driver, const ze_context_desc_t* desc,
                                      ze_context_handle_t* out) {
  if (!handles<Driver>().find(driver)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc || !out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (is_to_fail("zeContextCreate")) return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  handles<Context>().insert(std::make_shared<Context>(), out);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL context_create_ex(ze_driver_handle_t driver, const ze_context_desc_t* desc, uint32_t,
                                         ze_device_handle_t*, ze_context_handle_t* out) {
  return context_create(driver, desc, out);
}

ze_result_t ZE_APICALL context_destroy(ze_context_handle_t handle) {
  return destroy_handle<Context>(handle, "context");
}

ze_result_t ZE_APICALL context_get_status(ze_context_handle_t) { return device_get_status(nullptr); }

ze_result_t ZE_APICALL context_accept_memory(ze_context_handle_t, ze_device_handle_t, void*, size_t) {
  return ZE_RESULT_SUCCESS;
}

// Sysman: one memory module per device, which is named by the device's handle.
ze_result_t ZE_APICALL sysman_enum_memory(zes_device_handle_t device, uint32_t* count, zes_mem_handle_t* modules) {
  if (!config().sysman) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  if (!handles<Device>().find(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return enumerate({reinterpret_cast<zes_mem_handle_t>(device)}, count, modules);
}

ze_result_t ZE_APICALL sysman_memory_properties(zes_mem_handle_t, zes_mem_properties_t* p) {
  p->type = ZES_MEM_TYPE_DDR;
  p->onSubdevice = 0;
  p->subdeviceId = 0;
  p->location = ZES_MEM_LOC_DEVICE;
  p->physicalSize = config().memory_bytes;
  p->busWidth = 64;
  p->numChannels = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL sysman_memory_state(zes_mem_handle_t handle, zes_mem_state_t* state) {
  auto device = handles<Device>().find(handle);
  if (!device) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  state->health = ZES_MEM_HEALTH_OK;
  state->size = config().memory_bytes;
  state->free = config().memory_bytes - (does_wrong(Wrong::memory) ? 0 : used_memory(device.get()));
  return ZE_RESULT_SUCCESS;
}

}  // namespace

void fill_table(ze_global_dditable_t& table) { table.pfnInit = init; }

void fill_table(ze_driver_dditable_t& table) {
  table.pfnGet = driver_get;
  table.pfnGetApiVersion = driver_get_api_version;
  table.pfnGetProperties = driver_get_properties;
  table.pfnGetIpcProperties = driver_get_ipc_properties;
  table.pfnGetExtensionProperties = driver_get_extensions;
  table.pfnGetExtensionFunctionAddress = driver_get_extension_function;
}

void fill_table(ze_device_dditable_t& table) {
  table.pfnGet = device_get;
  table.pfnGetSubDevices = device_get_sub_devices;
  table.pfnGetProperties = device_get_properties;
  table.pfnGetComputeProperties = device_get_compute_properties;
  table.pfnGetModuleProperties = device_get_module_properties;
  table.pfnGetMemoryProperties = device_get_memory_properties;
  table.pfnGetMemoryAccessProperties = device_get_memory_access;
  table.pfnGetCommandQueueGroupProperties = device_get_queue_groups;
  table.pfnGetP2PProperties = device_get_p2p_properties;
  table.pfnCanAccessPeer = device_can_access_peer;
  table.pfnGetStatus = device_get_status;
  table.pfnGetGlobalTimestamps = device_get_timestamps;
}

void fill_table(ze_context_dditable_t& table) {
  table.pfnCreate = context_create;
  table.pfnCreateEx = context_create_ex;
  table.pfnDestroy = context_destroy;
  table.pfnGetStatus = context_get_status;
  table.pfnMakeMemoryResident = context_accept_memory;
  table.pfnEvictMemory = context_accept_memory;
}

void fill_table(zes_device_dditable_t& table) { table.pfnEnumMemoryModules = sysman_enum_memory; }

void fill_table(zes_memory_dditable_t& table) {
  table.pfnGetProperties = sysman_memory_properties;
  table.pfnGetState = sysman_memory_state;
}

}  // namespace weft::testing::ze
