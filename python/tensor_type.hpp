#pragma once

#include "convert.hpp"

namespace weft::python {

/// Makes weft.Tensor and adds it to the module.
void add_tensor_type(PyObject* module);

// Indexing, in indexing.cpp.
PyObject* get_item(PyObject* self, PyObject* index);
int set_item(PyObject* self, PyObject* index, PyObject* value);

// Memory from outside and for others, in interop.cpp.
int get_buffer(PyObject* self, Py_buffer* view, int flags);
void release_buffer(PyObject* self, Py_buffer* view);
PyObject* to_dlpack(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords);
PyObject* dlpack_device(PyObject* self, PyObject*);
/// numpy.ndarray over the same memory; `force` detaches, copies to the CPU.
PyObject* to_numpy(PyObject* self, bool force);
/// A tensor over, or a copy of, anything with a buffer or __dlpack__; undefined where `object` has neither.
enum class Copying : uint8_t { never, if_needed, always };
Tensor from_memory(PyObject* object, Copying copying);
/// Of nested sequences, numbers and arrays: always a copy. Without `dtype` by their contents.
Tensor from_object(PyObject* object, std::optional<DType> dtype, Location where);
void add_interop(PyObject* module);

}  // namespace weft::python
