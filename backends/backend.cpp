#include "backend.hpp"

#include <fmt/format.h>

#include "watch/observe.hpp"
#include "plugin/registry.hpp"
#include "../tensor/allocator.hpp"
#include "../tensor/error.hpp"

namespace weft {

namespace {

struct Started {
  Backend* backend = nullptr;
  std::string why_not;

  [[maybe_unused]] explicit Started(Backend* (*start)(std::string&)) {
    backend = start(why_not);
    if (backend != nullptr) detail::observe_new_kernels();
  }
  [[maybe_unused]] explicit Started(const char* not_built) : why_not(not_built) {}
};

const Started& started_hpu() {
#if WEFT_HAS_HPU
  static const Started hpu(detail::start_hpu);
#else
  static const Started hpu("this Weft was built without HPU: configure it with -DWEFT_WITH_HPU=ON");
#endif
  return hpu;
}

const Started& started_cuda() {
#if WEFT_HAS_CUDA
  static const Started cuda(detail::start_cuda);
#else
  static const Started cuda("this Weft was built without CUDA: configure it with -DWEFT_WITH_CUDA=ON");
#endif
  return cuda;
}

}  // namespace

Backend* find_backend(DeviceType type) {
  if (type == DeviceType::hpu) return started_hpu().backend;
  if (type == DeviceType::cuda) return started_cuda().backend;
  return plugin::find_backend(type);
}

void detail::start_backend(DeviceType type) { find_backend(type); }

int device_count(DeviceType type) {
  if (type == DeviceType::cpu || type == DeviceType::meta) return 1;
  Backend* backend = find_backend(type);
  return backend == nullptr ? 0 : backend->device_count();
}

std::string why_no_device(Device device) {
  const int count = device_count(device.type);
  if (device.index < count) return "";
  if (count == 0) {
    if (device.type == DeviceType::hpu) return started_hpu().why_not;
    return device.type == DeviceType::cuda ? started_cuda().why_not : plugin::why_no_device(device.type);
  }
  return count == 1
             ? fmt::format("the only one is {}", Device(device.type).name())
             : fmt::format("there are {} to {}", Device(device.type).name(), Device(device.type, count - 1).name());
}

void check_device(Device device, const char* op, Location where) {
  if (device.index < device_count(device.type)) return;
  raise<DeviceError>(
      {.op = op, .problem = fmt::format("there is no device {}", device.name()), .details = why_no_device(device)},
      where);
}

void synchronize(Device device, Location where) {
  check_device(device, "synchronize", where);
  if (Backend* backend = find_backend(device.type)) backend->synchronize(device.index);
}

}  // namespace weft
