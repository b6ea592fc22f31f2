// Memory that somebody else owns, on its way to become a tensor.
#pragma once

#include <algorithm>

#include "tensor_type.hpp"

namespace weft::python {

/// Strides count bytes; they and the address may be odd.
struct Window {
  void* data = nullptr;
  DType dtype = DType::f32;
  Dims shape, strides;
  bool read_only = false;

  bool is_empty() const { return std::ranges::find(shape, 0) != shape.end(); }
  bool strides_fit() const {
    const int64_t size = itemsize(dtype);
    bool fit = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size) == 0;
    for (const int64_t stride : strides) fit = fit && stride % size == 0;
    return fit;
  }
};

/// A tensor over the window, which keeps `owner`, or a copy of it. ValueError where a copy is needed and forbidden.
Tensor from_window(const Window& window, PyObject* owner, Copying copying, Location where);

/// Errors other than AttributeError go on.
inline bool has_attribute(PyObject* object, const char* name) {
  PyObject* found = PyObject_GetAttrString(object, name);
  if (found == nullptr && !PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError();
  if (found == nullptr) PyErr_Clear();
  Py_XDECREF(found);
  return found != nullptr;
}

/// A tensor from a DLPack capsule, which is consumed, or from an object with __dlpack__.
Tensor from_dlpack_object(PyObject* object, Copying copying);

}  // namespace weft::python
