// SPIR-V modules and their kernels, made when they are first needed.
#include <cstring>

#include <fmt/format.h>

#include "device.hpp"
#include "../../tensor/error.hpp"

namespace weft::spirv {
#define WEFT_HPU_MODULE(name)        \
  extern const std::uint32_t name[]; \
  extern const std::size_t name##_bytes;
WEFT_PORTABLE_MODULES(WEFT_HPU_MODULE)
#undef WEFT_HPU_MODULE
}  // namespace weft::spirv

namespace weft::hpu {

namespace {

struct Code {
  const char* name;
  const uint32_t* words;
  const size_t* bytes;
};
constexpr Code codes[module_count] = {
#define WEFT_HPU_MODULE(name) {#name, spirv::name, &spirv::name##_bytes},
    WEFT_PORTABLE_MODULES(WEFT_HPU_MODULE)
#undef WEFT_HPU_MODULE
};

std::string read_log(ze_module_build_log_handle_t log) {
  size_t size = 0;
  if (log == nullptr || api().zeModuleBuildLogGetString(log, &size, nullptr) != ZE_RESULT_SUCCESS) return {};
  std::string text(size, '\0');
  api().zeModuleBuildLogGetString(log, &size, text.data());
  return text.c_str();
}

}  // namespace

ze_module_handle_t HpuDevice::load_module(Module which) {
  ze_module_handle_t& module = modules_[static_cast<size_t>(which)];
  if (module != nullptr) return module;
  const Code& code = codes[static_cast<int>(which)];
  ze_module_desc_t description = {};
  description.stype = ZE_STRUCTURE_TYPE_MODULE_DESC;
  description.format = ZE_MODULE_FORMAT_IL_SPIRV;
  description.inputSize = *code.bytes;
  description.pInputModule = reinterpret_cast<const uint8_t*>(code.words);
  description.pBuildFlags = "";
  ze_module_build_log_handle_t log = nullptr;
  const ze_result_t result = api().zeModuleCreate(context_, handle_, &description, &module, &log);
  const std::string text = result == ZE_RESULT_SUCCESS ? "" : read_log(log);
  if (log != nullptr) api().zeModuleBuildLogDestroy(log);
  if (result == ZE_RESULT_SUCCESS) return module;
  module = nullptr;
  if (text.empty()) raise_failure("zeModuleCreate", result, index());
  raise<DeviceError>({.op = "hpu", .problem = fmt::format("the kernels {} do not build: {}", code.name, text)},
                     detail::current_call.where);
}

Kernel& HpuDevice::find_kernel(Module which, const std::string& name) {
  std::lock_guard lock(mutex_);
  require_open();
  const ze_module_handle_t module = load_module(which);
  const ze_kernel_desc_t description = {ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, name.c_str()};
  auto kernel = std::make_unique<Kernel>();
  WEFT_ZE(index(), zeKernelCreate, module, &description, &kernel->handle);
  kernels_.push_back(std::move(kernel));
  return *kernels_.back();
}

}  // namespace weft::hpu
