// The configuration of this build, for bug reports.
#pragma once

#include <string>

#include "../tensor/config.hpp"

namespace weft {

/// Returns lines for people: version and compiler, processor and vector instructions in use, threads, build options,
/// available devices (initialises their drivers), the modes of this thread, and the value of each setting
/// (docs/settings.md).
WEFT_API std::string config();

}  // namespace weft
