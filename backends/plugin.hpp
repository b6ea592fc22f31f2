// Device types from shared objects, without rebuilding Weft. Such an object implements plugin/plugin.h; see
// docs/adding_a_device.md.
#pragma once

#include <string>

#include "plugin/plugin.h"
#include "../tensor/config.hpp"
#include "../tensor/device.hpp"
#include "../tensor/device_kinds.hpp"
#include "../tensor/location.hpp"

namespace weft {

/// Loads a plug-in and gives the kind of device that it brings, of which Device("name") can be made from now on. It
/// stays loaded until the program's end; the same object once more does nothing. Those of the environment variable
/// WEFT_PLUGINS, separated by colons, are loaded when devices are first looked for. DeviceError where the object cannot
/// be loaded, was written for another version, brings a kind that is there already, or fails.
WEFT_API DeviceType load_device_plugin(const std::string& path, Location where = {});

/// The path of the object that brought a kind of device; empty for one that is built in.
WEFT_API std::string plugin_path(DeviceType type);

/// A plug-in's functions for work between processes. NotImplementedError where it has none, DeviceError for a kind that
/// no plug-in brought.
WEFT_API const WeftCollectives& collectives_of(DeviceType type, Location where = {});

}  // namespace weft
