#include "loader.hpp"

#include <dlfcn.h>

#include <fmt/format.h>

#include "../dispatch.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/find_symbol-inl.hpp"

namespace weft::hpu {

namespace {

bool resolve(void* library, Api& api) {
#define WEFT_ZE_RESOLVE(name) \
  if (!detail::find_symbol(library, #name, api.name)) return false;
  WEFT_ZE_FUNCTIONS(WEFT_ZE_RESOLVE)
#undef WEFT_ZE_RESOLVE
  detail::find_symbol(library, "zesDeviceEnumMemoryModules", api.zesDeviceEnumMemoryModules);
  detail::find_symbol(library, "zesMemoryGetState", api.zesMemoryGetState);
  return true;
}

const char* meaning(ze_result_t code);

std::string& reason() {
  static std::string text;
  return text;
}

const Api* open_loader() {
  // Never closed: static tensors may die after everything else.
  void* library = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    reason() = "the Level Zero loader libze_loader.so.1 is not installed";
    return nullptr;
  }
  static Api functions;
  if (!resolve(library, functions)) {
    reason() = "the Level Zero loader libze_loader.so.1 is too old";
    return nullptr;
  }
  if (const ze_result_t code = functions.zeInit(0); code != ZE_RESULT_SUCCESS) {
    reason() =
        fmt::format("Level Zero finds no driver: zeInit gave {:#x} ({})", static_cast<uint32_t>(code), meaning(code));
    return nullptr;
  }
  return &functions;
}

const Api* opened = nullptr;

const char* meaning(ze_result_t code) {
  switch (code) {
    case ZE_RESULT_NOT_READY:
      return "not ready";
    case ZE_RESULT_ERROR_DEVICE_LOST:
      return "the device was lost";
    case ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY:
      return "out of host memory";
    case ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY:
      return "out of device memory";
    case ZE_RESULT_ERROR_MODULE_BUILD_FAILURE:
      return "the kernels did not build";
    case ZE_RESULT_ERROR_MODULE_LINK_FAILURE:
      return "the kernels did not link";
    case ZE_RESULT_ERROR_INVALID_KERNEL_NAME:
      return "no kernel of that name";
    case ZE_RESULT_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case ZE_RESULT_ERROR_UNSUPPORTED_FEATURE:
      return "unsupported feature";
    case ZE_RESULT_ERROR_UNSUPPORTED_SIZE:
      return "more than the driver serves at once";
    case ZE_RESULT_ERROR_INVALID_SIZE:
      return "a size that the driver does not serve";
    case ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS:
      return "permission is missing";
    case ZE_RESULT_ERROR_NOT_AVAILABLE:
      return "the device is taken by others";
    case ZE_RESULT_ERROR_UNSUPPORTED_VERSION:
      return "the driver is too old";
    case ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE:
      return "an object is in use";
    case ZE_RESULT_ERROR_UNINITIALIZED:
      return "not initialised";
    default:
      return "a code of the driver's own";
  }
}

}  // namespace

const Api* find_api() {
  static const bool asked = (opened = open_loader(), true);
  (void)asked;
  return opened;
}

const std::string& why_no_api() { return reason(); }

const Api& api() { return *opened; }

void raise_failure(const char* function, ze_result_t code, int device, const std::string& details) {
  const CallPlace place = detail::current_call;
  raise<DeviceError>({.op = place.op != nullptr ? place.entry : "hpu",
                      .problem = fmt::format("{} failed on hpu:{} with code {:#x} ({})", function, device,
                                             static_cast<uint32_t>(code), meaning(code)),
                      .details = details,
                      .remedy = code == ZE_RESULT_ERROR_DEVICE_LOST ? "start the program anew" : ""},
                     place.where);
}

}  // namespace weft::hpu
