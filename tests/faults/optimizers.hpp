#pragma once

#include <vector>

#include "faults/scenario.hpp"

namespace weft::faults {
/// A step of each optimizer: it is done, or nothing has changed.
std::vector<Kind> optimizer_steps();
}  // namespace weft::faults
