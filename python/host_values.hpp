// Comparison of the host values that a captured step reads, by a hash of each.
#pragma once

#include <vector>

#include "object.hpp"

namespace weft::python {

/// Equal for equal numbers, strings, containers (by elements), NumPy arrays, buffers, partial functions, and functions
/// with equal code and defaults; other objects by identity. Up to 65,536 elements of a sequence, 1 MiB of an array and
/// 131,072 values in all are compared, the rest by identity. The caller holds the GIL.
uint64_t value_of(PyObject* value);

/// `value_of` cannot change while it is the same object.
bool has_fixed_value(PyObject* value);

/// A number, a string, bytes or None, which holds no other object.
bool is_plain(PyObject* value);

/// The objects inside a container, a partial function, a context variable or a weak reference; none for others.
std::vector<Ref> parts_of(PyObject* value);

/// The function of a class method, a static method, a property or a cached function; null for others.
Ref function_behind(PyObject* value);

/// threading.local, whose attributes differ between threads.
bool is_thread_local(PyObject* value);

/// A generator of random numbers of Python or NumPy, or an iterator: their next value is another one.
bool moves_by_reading(PyObject* value);

}  // namespace weft::python
