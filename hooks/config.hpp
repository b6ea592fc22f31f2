// What this build is, and how it is set: for reports of faults.
#pragma once

#include <string>

#include "../tensor/config.hpp"

namespace weft {

/// Lines for people: version and compiler, processor and vector instructions in use, threads, what it was built with,
/// the devices that are there (drivers are started), the modes of this thread, and each setting with what it says
/// (docs/settings.md).
WEFT_API std::string config();

}  // namespace weft
