// The errors that Python has no type for.
#pragma once

#include <Python.h>

namespace weft::python {

/// weft.linalg.LinAlgError, a RuntimeError.
PyObject* linalg_error() noexcept;
/// weft.OutOfMemoryError, a MemoryError.
PyObject* out_of_memory_error() noexcept;

}  // namespace weft::python
