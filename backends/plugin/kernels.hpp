#pragma once

#include "plugin.h"
#include "../../tensor/view.hpp"

namespace weft::plugin {

/// Fills the row of a kind of device. Copies of dense memory and fills work without a kernel.
void fill_kernels(DeviceType type, const WeftDeviceInterface& table);

}  // namespace weft::plugin
