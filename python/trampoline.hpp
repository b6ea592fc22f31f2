// weft.op objects: one calling convention for every op, read from its schema. Nothing here knows a single op.
#pragma once

#include <string>
#include <vector>

#include "convert.hpp"

namespace weft::python {

/// "name(x, *shape, dim=None, *, keepdim=False)", taken apart.
struct Parameter {
  std::string name;
  PyObject* interned;  // owned for ever
  std::string default_text;
  bool required;
  bool keyword_only;
  /// The rest of the positional arguments, or one tuple: reshape(2, 3) and reshape((2, 3)).
  bool variadic;
};

struct Function {
  const char* name;
  std::string signature, document;
  std::vector<Parameter> parameters;
  size_t positional;
  BoxedFunction call;
  PointwiseFunctions pointwise;
  /// Names of the results where an op gives several: max(x, 0).indices.
  PyObject* result_type = nullptr;
  /// Called where arguments have keywords that the schema lacks.
  PyObject* extension = nullptr;
  /// Keywords of PyTorch's that change nothing here: a dictionary of the values that they may have beside None.
  PyObject* idle_keywords = nullptr;
};

/// A callable as the records have it, for functions that are no ops of their own.
struct Callable {
  const char* name;
  const char* schema;
  const char* document;
  BoxedFunction call;
  PointwiseFunctions pointwise = {};
};

/// Adds weft.op to the module, and to its dictionary `_ops` every op's object, in-place forms included.
void add_ops(PyObject* module);

}  // namespace weft::python
