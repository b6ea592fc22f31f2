#pragma once

#include "convert.hpp"

namespace weft::python {

/// Whether weft.torch is in use: dtypes print as torch.float32, and uint8 tensors are masks in indices.
extern bool pytorch_forms;

void add_dtypes(PyObject* module);

}  // namespace weft::python
