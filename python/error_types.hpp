// Weft's errors in Python: each is a weft.Error, which is a RuntimeError, and Python's own kind where there is one.
#pragma once

#include <Python.h>

namespace weft::python {

/// Adds weft.Error, weft.ShapeError, … to the module.
void add_errors(PyObject* module);

}  // namespace weft::python
