// Stops and replays for Python, which replay.cpp binds.
#pragma once

#include "caster.hpp"

namespace weft::python {

void bind_replay(nb::module_& module);

}  // namespace weft::python
