// Devices that communicate directly, without the host.
#include <array>

#include "../detail/member.hpp"
#if WEFT_HAS_NCCL
#include "../nccl/gpu.hpp"
#endif

namespace weft::distributed::detail {

ConnectDevices& connects_devices(DeviceType type) {
  static std::array<ConnectDevices, device_type_count> all = [] {
    std::array<ConnectDevices, device_type_count> made;
#if WEFT_HAS_NCCL
    made[static_cast<size_t>(DeviceType::cuda)] = nccl::connect_gpus;
#endif
    return made;
  }();
  return all[static_cast<size_t>(type)];
}

}  // namespace weft::distributed::detail
