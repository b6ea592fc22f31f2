// Devices by name: "cpu", "cuda:1", "hpu", "meta".
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "config.hpp"
#include "location.hpp"
#include "view.hpp"

namespace weft {

/// A device type and an index. Device{} is the CPU.
struct Device {
  DeviceType type = DeviceType::cpu;
  uint8_t index = 0;

  constexpr Device() = default;
  constexpr Device(DeviceType t, int i = 0) : type(t), index(static_cast<uint8_t>(i)) {}
  /// Parses "cpu", "cuda", "cuda:1", "hpu:0", "meta" and the device types of loaded plug-ins. The device need not
  /// exist. Raises DeviceError for any other name.
  WEFT_API Device(std::string_view name, Location where = {});
  Device(const char* name, Location where = {}) : Device(std::string_view(name), where) {}

  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  constexpr bool operator==(const Device&) const = default;
  /// "cpu", "meta", "cuda:0", "hpu:1".
  WEFT_API std::string name() const;
};

/// Whether devices of this type have an index, and each its own memory and queues: true for all types but cpu and meta.
constexpr bool is_numbered(DeviceType type) { return type != DeviceType::cpu && type != DeviceType::meta; }

/// Prints Device::name.
WEFT_API std::ostream& operator<<(std::ostream& out, Device device);

namespace detail {
/// Registers the name of a device type; nullptr removes it. `name` must live as long as the process.
void name_device_type(DeviceType type, const char* name);
}  // namespace detail

}  // namespace weft
