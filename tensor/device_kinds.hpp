// Which kinds of devices there are: those built in, and those of plug-ins.
#pragma once

#include <vector>

#include "config.hpp"
#include "view.hpp"

namespace weft {

/// Every kind that has a name, whether there is such a device or not: those built in, then those of plug-ins in the
/// order in which they were loaded. Loads the plug-ins of WEFT_PLUGINS first.
WEFT_API std::vector<DeviceType> device_kinds();
/// Those of which a device has memory of its own: all but cpu and meta.
WEFT_API std::vector<DeviceType> accelerator_kinds();

namespace detail {
/// Those that have a name by now; loads nothing.
std::vector<DeviceType> named_kinds();
/// Defined in backends/: loads what WEFT_PLUGINS names, once. Raises DeviceError where it cannot, at each call.
void load_plugins_of_environment();
}  // namespace detail

}  // namespace weft
