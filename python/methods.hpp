#pragma once

#include <span>

#include "trampoline.hpp"

namespace weft::python {

/// Methods that are no ops, for the same trampoline; they have no samples.
std::span<const OpRecord> method_table();

}  // namespace weft::python
