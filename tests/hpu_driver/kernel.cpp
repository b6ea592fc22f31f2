#include "kernel.h"

#include <algorithm>
#include <cstring>

#include "tables.h"

namespace weft::testing::ze {
namespace {

using Kind = KernelParameter::Kind;

ze_result_t ZE_APICALL kernel_create(ze_module_handle_t module_handle, const ze_kernel_desc_t* desc,
                                     ze_kernel_handle_t* out) {
  auto module = handles<Module>().find(module_handle);
  if (!module) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc || !desc->pKernelName || !out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  auto it = module->kernels.find(desc->pKernelName);
  if (it == module->kernels.end()) return ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
  auto kernel = std::make_shared<Kernel>();
  kernel->info = &it->second;
  kernel->arguments.lines.resize(kernel->info->argument_bytes / sizeof(ArgumentBlock::Line));
  kernel->local_sizes.resize(kernel->info->parameters.size());
  kernel->is_set.resize(kernel->info->parameters.size());
  kernel->module = std::move(module);
  handles<Kernel>().insert(std::move(kernel), out);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL kernel_destroy(ze_kernel_handle_t handle) { return destroy_handle<Kernel>(handle, "kernel"); }

// `pointer` must be null or inside memory that the device may touch.
ze_result_t check_pointer(const Kernel& kernel, const Device* device, uint32_t index, const void* pointer,
                          std::vector<MemoryUse>* memory) {
  if (!pointer) return ZE_RESULT_SUCCESS;
  auto a = find_allocation(pointer);
  if (a && accessible(*a, device)) {
    if (memory) memory->push_back({a->base, a->id});
    return ZE_RESULT_SUCCESS;
  }
  if (!config().strict) return ZE_RESULT_SUCCESS;
  report("%s: argument %u is a %s pointer: %p", kernel.info->name.c_str(), index, a ? "peer device's" : "foreign",
         pointer);
  return ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

ze_result_t ZE_APICALL kernel_set_argument(ze_kernel_handle_t handle, uint32_t index, size_t size, const void* value) {
  auto kernel = handles<Kernel>().find(handle);
  if (!kernel) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  CallGuard guard(kernel->calls, "kernel");
  if (guard.overlapped()) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  const KernelInfo& info = *kernel->info;
  if (index >= info.parameters.size()) return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX;
  const KernelParameter& parameter = info.parameters[index];

  if (parameter.kind == Kind::local_pointer) {
    if (value || size == 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    kernel->local_sizes[index] = size;
  } else {
    if (size != parameter.size) {
      report("%s: argument %u has %zu bytes, %zu were passed", info.name.c_str(), index, parameter.size, size);
      return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
    }
    if (!value && parameter.kind == Kind::value) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (value && parameter.kind == Kind::global_pointer) {
      void* pointer = nullptr;
      std::memcpy(&pointer, value, sizeof pointer);
      ze_result_t result = check_pointer(*kernel, kernel->module->device, index, pointer, nullptr);
      if (result != ZE_RESULT_SUCCESS) return result;
    }
    std::byte* place = kernel->arguments.at(parameter.offset);
    if (value) {
      std::memcpy(place, value, size);
    } else {
      std::memset(place, 0, size);
    }
  }
  kernel->is_set[index] = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL kernel_set_group_size(ze_kernel_handle_t handle, uint32_t x, uint32_t y, uint32_t z) {
  auto kernel = handles<Kernel>().find(handle);
  if (!kernel) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (x == 0 || y == 0 || z == 0 || uint64_t{x} * y * z > max_group_size) {
    return ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION;
  }
  CallGuard guard(kernel->calls, "kernel");
  if (guard.overlapped()) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  kernel->group_size = {x, y, z};
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL kernel_suggest_group_size(ze_kernel_handle_t, uint32_t x, uint32_t, uint32_t, uint32_t* gx,
                                                 uint32_t* gy, uint32_t* gz) {
  *gx = std::clamp(x, 1u, 256u);
  *gy = *gz = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL kernel_get_properties(ze_kernel_handle_t handle, ze_kernel_properties_t* properties) {
  auto kernel = handles<Kernel>().find(handle);
  if (!kernel) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  properties->numKernelArgs = static_cast<uint32_t>(kernel->info->parameters.size());
  properties->requiredGroupSizeX = properties->requiredGroupSizeY = properties->requiredGroupSizeZ = 0;
  properties->requiredNumSubGroups = properties->requiredSubgroupSize = 0;
  properties->maxSubgroupSize = 1;
  properties->maxNumSubgroups = max_group_size;
  properties->localMemSize = static_cast<uint32_t>(kernel->info->static_local_bytes);
  properties->privateMemSize = properties->spillMemSize = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL kernel_get_name(ze_kernel_handle_t handle, size_t* size, char* name) {
  auto kernel = handles<Kernel>().find(handle);
  if (!kernel) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  size_t full = kernel->info->name.size() + 1;
  if (name) std::memcpy(name, kernel->info->name.c_str(), std::min(*size, full));
  *size = full;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL kernel_set_indirect_access(ze_kernel_handle_t, ze_kernel_indirect_access_flags_t) {
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL kernel_set_cache_config(ze_kernel_handle_t, ze_cache_config_flags_t) {
  return ZE_RESULT_SUCCESS;
}

}  // namespace

ze_result_t ZE_APICALL kernel_get_argument_bytes(ze_kernel_handle_t handle, uint32_t* count, size_t* bytes) {
  auto kernel = handles<Kernel>().find(handle);
  if (!kernel) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  const auto& parameters = kernel->info->parameters;
  if (!bytes) {
    *count = static_cast<uint32_t>(parameters.size());
    return ZE_RESULT_SUCCESS;
  }
  for (uint32_t i = 0; i < std::min<size_t>(*count, parameters.size()); ++i) bytes[i] = parameters[i].size;
  return ZE_RESULT_SUCCESS;
}

ze_result_t capture_launch(Kernel& kernel, const Device* device, const ze_group_count_t& groups, Launch* launch,
                           std::vector<MemoryUse>* memory) {
  const KernelInfo& info = *kernel.info;
  if (kernel.module->device != device) {
    report("%s: launched on a device that its module was not created for", info.name.c_str());
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  if (kernel.group_size[0] == 0) {
    report("%s: launched without a group size", info.name.c_str());
    return ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION;
  }
  if (groups.groupCountX == 0 || groups.groupCountY == 0 || groups.groupCountZ == 0) {
    report("%s: launched with no work-groups", info.name.c_str());
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  size_t local_bytes = info.static_local_bytes;
  for (uint32_t i = 0; i < info.parameters.size(); ++i) {
    const KernelParameter& parameter = info.parameters[i];
    if (!kernel.is_set[i]) {
      report("%s: argument %u is not set", info.name.c_str(), i);
      return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    local_bytes += kernel.local_sizes[i];
    if (parameter.kind != Kind::global_pointer) continue;
    void* pointer = nullptr;
    std::memcpy(&pointer, kernel.arguments.at(parameter.offset), sizeof pointer);
    ze_result_t result = check_pointer(kernel, device, i, pointer, memory);
    if (result != ZE_RESULT_SUCCESS) return result;
  }
  if (local_bytes > max_local_bytes) {
    report("%s: %zu bytes of local memory, the device has %zu", info.name.c_str(), local_bytes, max_local_bytes);
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  launch->module = kernel.module;
  launch->kernel = kernel.info;
  launch->arguments = kernel.arguments;
  launch->local_sizes = kernel.local_sizes;
  launch->group_size = kernel.group_size;
  launch->group_count = {groups.groupCountX, groups.groupCountY, groups.groupCountZ};
  return ZE_RESULT_SUCCESS;
}

void fill_table(ze_kernel_dditable_t& table) {
  table.pfnCreate = kernel_create;
  table.pfnDestroy = kernel_destroy;
  table.pfnSetArgumentValue = kernel_set_argument;
  table.pfnSetGroupSize = kernel_set_group_size;
  table.pfnSuggestGroupSize = kernel_suggest_group_size;
  table.pfnGetProperties = kernel_get_properties;
  table.pfnGetName = kernel_get_name;
  table.pfnSetIndirectAccess = kernel_set_indirect_access;
  table.pfnSetCacheConfig = kernel_set_cache_config;
}

}  // namespace weft::testing::ze
