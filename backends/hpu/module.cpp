// Kernels, built from SPIR-V one by one when they are first called.
#include <fmt/format.h>

#include "device.hpp"
#include "spirv.hpp"
#include "../../tensor/error.hpp"

namespace weft::spirv {
#define WEFT_HPU_MODULE(name)        \
  extern const std::uint32_t name[]; \
  extern const std::size_t name##_bytes;
WEFT_PORTABLE_MODULES(WEFT_HPU_MODULE)
#undef WEFT_HPU_MODULE
}  // namespace weft::spirv

namespace weft::hpu {

spirv::Words code_of(Module module) {
  switch (module) {
#define WEFT_HPU_MODULE(name) \
  case Module::name:          \
    return {spirv::name, spirv::name##_bytes / sizeof(uint32_t)};
    WEFT_PORTABLE_MODULES(WEFT_HPU_MODULE)
#undef WEFT_HPU_MODULE
    default:
      return {};
  }
}

namespace {

std::string read_log(ze_module_build_log_handle_t log) {
  size_t size = 0;
  if (log == nullptr || api().zeModuleBuildLogGetString(log, &size, nullptr) != ZE_RESULT_SUCCESS) return {};
  std::string text(size, '\0');
  api().zeModuleBuildLogGetString(log, &size, text.data());
  return text.c_str();
}

}  // namespace

/// Null where it does not build; `problem` then says why, which is empty where the driver only gives a code.
ze_module_handle_t HpuDevice::make_module(ze_module_format_t format, std::span<const uint8_t> code,
                                          std::string* problem) {
  ze_module_desc_t description = {};
  description.stype = ZE_STRUCTURE_TYPE_MODULE_DESC;
  description.format = format;
  description.inputSize = code.size();
  description.pInputModule = code.data();
  description.pBuildFlags = build_flags;
  ze_module_handle_t handle = nullptr;
  ze_module_build_log_handle_t log = nullptr;
  const ze_result_t result = api().zeModuleCreate(context_, handle_, &description, &handle, &log);
  if (result != ZE_RESULT_SUCCESS && problem != nullptr) *problem = read_log(log);
  if (log != nullptr) api().zeModuleBuildLogDestroy(log);
  if (result == ZE_RESULT_SUCCESS) return handle;
  if (problem != nullptr && problem->empty()) raise_failure("zeModuleCreate", result, index());
  return nullptr;
}

void HpuDevice::keep_program(const std::string& key, ze_module_handle_t module) {
  size_t bytes = 0;
  if (api().zeModuleGetNativeBinary(module, &bytes, nullptr) != ZE_RESULT_SUCCESS || bytes == 0) return;
  std::vector<uint8_t> native(bytes);
  if (api().zeModuleGetNativeBinary(module, &bytes, native.data()) == ZE_RESULT_SUCCESS) programs_.store(key, native);
}

ze_module_handle_t HpuDevice::build_kernel(Module module, const std::string& name) {
  const std::vector<uint32_t> words = spirv::only_kernel(code_of(module), name);
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(words.data()), words.size() * sizeof(uint32_t));
  const std::string key = programs_.keeps() ? fmt::format("{} {} {}", build_, bytes.size(), digest(bytes)) : "";
  if (const auto native = programs_.load(key)) {
    if (ze_module_handle_t handle = make_module(ZE_MODULE_FORMAT_NATIVE, *native, nullptr)) return handle;
  }
  std::string problem;
  if (ze_module_handle_t handle = make_module(ZE_MODULE_FORMAT_IL_SPIRV, bytes, &problem)) {
    if (programs_.keeps()) keep_program(key, handle);
    return handle;
  }
  raise<DeviceError>({.op = "hpu", .problem = fmt::format("the kernel {} does not build: {}", name, problem)},
                     detail::current_call.where);
}

Kernel& HpuDevice::find_kernel(Module module, const std::string& name) {
  require_open();
  const std::lock_guard lock(kernel_mutex_);
  Kernel& kernel = kernels_[name];  // `close` frees what it holds, also where the rest fails
  if (kernel.handle != nullptr) return kernel;
  if (kernel.module == nullptr) kernel.module = build_kernel(module, name);
  const ze_kernel_desc_t description = {ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, name.c_str()};
  WEFT_ZE(index(), zeKernelCreate, kernel.module, &description, &kernel.handle);
  return kernel;
}

}  // namespace weft::hpu
