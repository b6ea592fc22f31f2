// weft.linalg.LinAlgError, a RuntimeError.
#pragma once

#include <Python.h>

namespace weft::python {

PyObject* linalg_error() noexcept;

}  // namespace weft::python
