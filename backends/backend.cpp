#include <weft/backends/backend.hpp>

#include <fmt/format.h>

#include <weft/backends/observe.hpp>
#include <weft/tensor/error.hpp>

namespace weft {

namespace {
[[maybe_unused]] Backend* started(Backend* (*start)()) {
  Backend* backend = start();
  if (backend != nullptr) detail::observe_new_kernels();
  return backend;
}
}  // namespace

Backend* find_backend(DeviceType type) {
  switch (type) {
    case DeviceType::hpu: {
#if WEFT_HAS_HPU
      static Backend* hpu = started(detail::start_hpu);
      return hpu;
#else
      return nullptr;
#endif
    }
    case DeviceType::cuda: {
#if WEFT_HAS_CUDA
      static Backend* cuda = started(detail::start_cuda);
      return cuda;
#else
      return nullptr;
#endif
    }
    default:
      return nullptr;
  }
}

int device_count(DeviceType type) {
  if (type == DeviceType::cpu || type == DeviceType::meta) return 1;
  Backend* backend = find_backend(type);
  return backend == nullptr ? 0 : backend->device_count();
}

void synchronize(Device device) {
  if (device.index >= device_count(device.type)) {
    raise<DeviceError>({.op = "synchronize", .problem = fmt::format("there is no device {}", device.name())},
                       Location::none());
  }
  if (Backend* backend = find_backend(device.type)) backend->synchronize(device.index);
}

}  // namespace weft
