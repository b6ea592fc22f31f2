#pragma once

#include <span>

#include "trampoline.hpp"

namespace weft::python {

/// Views, copies and in-place forms that are methods in C++ and have no record, for the same trampoline.
std::span<const OpRecord> method_table();

}  // namespace weft::python
