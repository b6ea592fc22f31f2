// weft.op objects: one calling convention for every op, read from its schema. No code here is specific to an op.
#pragma once

#include <string>
#include <vector>

#include "convert.hpp"
#include "../tensor/atomic.hpp"

namespace weft::python {

struct Function {
  const OpRecord* record;
  const Signature* signature;
  /// The arguments' names, owned for ever.
  std::vector<PyObject*> interned = {};
  size_t positional = 0;
  /// Names of the results where an op gives several: max(x, 0).indices.
  PyObject* result_type = nullptr;

  const std::vector<Argument>& arguments() const { return signature->arguments; }
};

/// Adds weft.op to the module, and to its dictionary `_ops` every op's object, in-place forms included.
void add_ops(PyObject* module);
/// The object of the op that calls by this name get now, registered ones included, as a new reference; None where there
/// is none. It follows overrides.
PyObject* find_op_object(const char* name);

/// Whether there are subclasses of Tensor that compute ops themselves.
extern Atomic<bool> subclasses_compute;
/// Calls __weft_function__(op, arguments, keywords) of the first argument whose class has one, for tensors while
/// subclasses compute. Null where there is none, with the error that was set before.
PyObject* hand_over(PyObject* op, PyObject* const* arguments, size_t count, PyObject* keywords);

}  // namespace weft::python
