// The plug-ins that were loaded, by the kind of device that each brought.
#pragma once

#include <string>

#include "../../tensor/view.hpp"

namespace weft {

class Backend;

namespace plugin {

/// nullptr where the plug-in has no device, or there is no such plug-in.
Backend* find_backend(DeviceType type);
/// Why there is none, in words for the program's user.
std::string why_no_device(DeviceType type);

}  // namespace plugin
}  // namespace weft
