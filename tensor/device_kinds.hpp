// The known device types: built-in ones and those of plug-ins.
#pragma once

#include <vector>

#include "config.hpp"
#include "view.hpp"

namespace weft {

/// All named device types, whether or not such a device exists: the built-in ones, then those of plug-ins in load
/// order. Loads the plug-ins of WEFT_PLUGINS first.
WEFT_API std::vector<DeviceType> device_kinds();
/// Device types with memory of their own: all but cpu and meta.
WEFT_API std::vector<DeviceType> accelerator_kinds();

namespace detail {
/// The types that are named so far. Loads no plug-ins.
std::vector<DeviceType> named_kinds();
/// Loads the plug-ins named in WEFT_PLUGINS, once. Raises DeviceError at each call if one of them cannot be loaded.
/// Defined in backends/.
void load_plugins_of_environment();
}  // namespace detail

}  // namespace weft
