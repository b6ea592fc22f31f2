// Which devices reach each other without the host.
#include <array>

#include "../detail/member.hpp"
#if WEFT_HAS_NCCL
#include "../nccl/gpu.hpp"
#endif

namespace weft::distributed::detail {

ConnectDevices& connects_devices(DeviceType type) {
  static std::map<DeviceType, ConnectDevices> all = [] {
    std::map<DeviceType, ConnectDevices> made;
    for (const DeviceType each : {DeviceType::cpu, DeviceType::hpu, DeviceType::cuda, DeviceType::meta})
      made[each] = {};
#if WEFT_HAS_NCCL
    made[DeviceType::cuda] = nccl::connect_gpus;
#endif
    return made;
  }();
  return all[type];
}

}  // namespace weft::distributed::detail
