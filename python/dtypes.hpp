#pragma once

#include "convert.hpp"

namespace weft::python {

/// Adds weft.dtype, weft.device and the dtypes.
void add_dtypes(PyObject* module);

}  // namespace weft::python
