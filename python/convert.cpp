#include "convert.hpp"

#include <cmath>
#include <cstring>

#include "generator.hpp"

namespace weft::python {

namespace {

bool from_numpy_scalars(PyObject* object) { return std::strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) == 0; }

// NumPy's scalars are numbers; its arrays, even of one element, are not.
bool is_numpy_array(PyObject* object) { return std::strcmp(Py_TYPE(object)->tp_name, "numpy.ndarray") == 0; }

bool is_builtin_number(PyObject* object) { return PyLong_Check(object) || PyFloat_Check(object); }

int64_t integer_of(PyObject* number) {
  const long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}

}  // namespace

bool is_number(PyObject* object) {
  if (PyFloat_Check(object) || PyLong_Check(object)) return true;
  if (is_tensor(object) || is_numpy_array(object)) return false;
  if (PyIndex_Check(object)) return true;
  const PyNumberMethods* numbers = Py_TYPE(object)->tp_as_number;
  return numbers != nullptr && numbers->nb_float != nullptr && from_numpy_scalars(object) && !PyComplex_Check(object) &&
         std::strncmp(Py_TYPE(object)->tp_name, "numpy.complex", 13) != 0;
}

std::optional<Scalar> to_scalar(PyObject* object) {
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) return value;
    const unsigned long long large = PyLong_AsUnsignedLongLong(object);
    if (PyErr_Occurred()) throw PythonError();
    return large;
  }
  if (!is_number(object)) return {};
  if (std::strncmp(Py_TYPE(object)->tp_name, "numpy.bool", 10) == 0) return PyObject_IsTrue(object) == 1;
  if (PyIndex_Check(object)) return to_scalar(Ref(PyNumber_Index(object)).get());
  return PyFloat_AS_DOUBLE(Ref(PyNumber_Float(object)).get());
}

std::optional<complex128> to_complex(PyObject* object) {
  const bool numpy = std::strncmp(Py_TYPE(object)->tp_name, "numpy.complex", 13) == 0;
  if (!PyComplex_Check(object) && !numpy) return {};
  const Py_complex value = PyComplex_AsCComplex(object);
  if (value.real == -1 && PyErr_Occurred()) throw PythonError();
  return complex128(value.real, value.imag);
}

std::optional<int64_t> to_integer(PyObject* object) {
  if (PyBool_Check(object) || is_numpy_array(object)) return {};
  if (PyLong_Check(object)) return integer_of(object);
  if (is_tensor(object)) {
    const Tensor& t = tensor_of(object);
    if (t.numel() != 1 || t.dim() != 0 || !is_integer(t.dtype())) return {};
    return t.item<int64_t>(here());
  }
  if (!PyIndex_Check(object)) return {};
  return integer_of(Ref(PyNumber_Index(object)).get());
}

std::optional<Dims> to_dims(PyObject* object) {
  if (!PyList_Check(object) && !PyTuple_Check(object)) {
    const auto one = to_integer(object);
    return one ? std::optional<Dims>(Dims(*one)) : std::nullopt;
  }
  // A copy: __index__ of an element may change the list.
  const Ref items(PySequence_Tuple(object));
  const auto count = static_cast<size_t>(PyTuple_GET_SIZE(items.get()));
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i) {
    const auto value = to_integer(PyTuple_GET_ITEM(items.get(), i));
    if (!value) return {};
    values[i] = *value;
  }
  return Dims(values, here());
}

namespace {

bool to_tensors(PyObject* sequence, Value& out) {
  const Ref items(PySequence_Tuple(sequence));
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (!is_tensor(item)) return false;
    tensors.push_back(tensor_of(item));
  }
  out = std::move(tensors);
  return true;
}

}  // namespace

bool to_long_list(PyObject* object, Value& out) {
  if (!(PyList_Check(object) || PyTuple_Check(object)) || PySequence_Fast_GET_SIZE(object) <= max_rank) return false;
  const Ref items(PySequence_Tuple(object));
  std::vector<Tensor> integers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    const auto value = to_integer(PyTuple_GET_ITEM(items.get(), i));
    if (!value) return false;
    integers.push_back(Operand(*value, here()).tensor());
  }
  out = std::move(integers);
  return true;
}

bool to_value(PyObject* object, Value& out) {
  if (is_tensor(object)) {
    out = tensor_of(object);
  } else if (object == Py_None) {
    out = std::monostate();
  } else if (PyUnicode_Check(object)) {
    out = text_of(object);
  } else if (PyList_Check(object) || PyTuple_Check(object)) {
    if (PySequence_Fast_GET_SIZE(object) > 0 && is_tensor(PySequence_Fast_GET_ITEM(object, 0)) &&
        tensor_of(PySequence_Fast_GET_ITEM(object, 0)).defined() && to_tensors(object, out)) {
      return true;
    }
    const auto dims = to_dims(object);
    if (!dims) return false;
    out = *dims;
  } else if (const auto dtype = to_dtype(object)) {
    out = *dtype;
  } else if (const auto number = to_complex(object)) {
    out = Operand(*number, here()).tensor();
  } else if (Py_TYPE(object)->tp_name == std::string_view("weft.device")) {
    out = to_device(object)->name();
  } else if (Generator* const generator = is_builtin_number(object) ? nullptr : to_generator(object)) {
    out = generator;
  } else {
    const auto scalar = to_scalar(object);
    if (!scalar) return false;
    if (scalar->held_as() == DType::u64) out = Operand(*scalar, here()).tensor();  // beyond what int64 holds
    else if (scalar->is_bool()) out = scalar->to<bool>();
    else if (scalar->is_floating()) out = scalar->to<double>();
    else out = scalar->to<int64_t>();
  }
  return true;
}

namespace {

PyTypeObject* size_type = nullptr;

// As a tuple's: a class in Python would cost twice the time.
void size_dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  for (Py_ssize_t i = 0; i < Py_SIZE(self); ++i) Py_XDECREF(PyTuple_GET_ITEM(self, i));
  type->tp_free(self);
  Py_DECREF(type);
}

// An index gives an integer, a slice a Size.
PyObject* size_part(PyObject* self, PyObject* key) {
  PyObject* const found = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
  if (found == nullptr || !PySlice_Check(key)) return found;
  PyObject* const part = size_type->tp_alloc(size_type, PyTuple_GET_SIZE(found));
  for (Py_ssize_t i = 0; part != nullptr && i < PyTuple_GET_SIZE(found); ++i) {
    PyTuple_SET_ITEM(part, i, Py_NewRef(PyTuple_GET_ITEM(found, i)));
  }
  Py_DECREF(found);
  return part;
}

PyObject* filled(Ref tuple, std::span<const int64_t> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Ref(PyLong_FromLongLong(numbers[i])).release());
  }
  return tuple.release();
}

}  // namespace

PyObject* from_dims(std::span<const int64_t> dims) {
  return filled(Ref(PyTuple_New(static_cast<Py_ssize_t>(dims.size()))), dims);
}
PyObject* from_sizes(std::span<const int64_t> sizes) {
  return filled(Ref(size_type->tp_alloc(size_type, static_cast<Py_ssize_t>(sizes.size()))), sizes);
}
void add_size_type(PyObject* module) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(size_dealloc)},
                                {Py_mp_subscript, reinterpret_cast<void*>(size_part)},
                                {Py_tp_doc, const_cast<char*>("The sizes of a tensor: a tuple of integers.")},
                                {}};
  static PyType_Spec spec = {"weft.Size", 0, 0, Py_TPFLAGS_DEFAULT, slots};
  const Ref bases(PyTuple_Pack(1, &PyTuple_Type));
  size_type = reinterpret_cast<PyTypeObject*>(Ref(PyType_FromSpecWithBases(&spec, bases.get())).release());
  if (PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(size_type)) < 0) throw PythonError();
}

PyObject* from_scalar(Scalar value) {
  if (value.is_bool()) return PyBool_FromLong(value.to<bool>());
  if (value.is_floating()) return PyFloat_FromDouble(value.to<double>());
  if (value.held_as() == DType::u64) return PyLong_FromUnsignedLongLong(value.to<uint64_t>());
  return PyLong_FromLongLong(value.to<int64_t>());
}

Ref tuple_of(std::span<const Tensor> tensors) {
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Ref(wrap(tensors[i])).release());
  }
  return tuple;
}

PyObject* from_value(Value&& value) {
  if (auto* tensor = std::get_if<Tensor>(&value)) return wrap(std::move(*tensor));
  if (auto* tensors = std::get_if<std::vector<Tensor>>(&value)) {
    return tuple_of(*tensors).release();
  }
  if (auto* flag = std::get_if<bool>(&value)) return PyBool_FromLong(*flag);
  if (auto* integer = std::get_if<int64_t>(&value)) return PyLong_FromLongLong(*integer);
  if (auto* number = std::get_if<double>(&value)) return PyFloat_FromDouble(*number);
  if (auto* dims = std::get_if<Dims>(&value)) return from_sizes(*dims);
  if (auto* dtype = std::get_if<DType>(&value)) return Py_NewRef(dtype_objects[static_cast<int>(*dtype)]);
  if (auto* text = std::get_if<std::string>(&value)) {
    return PyUnicode_FromStringAndSize(text->data(), static_cast<Py_ssize_t>(text->size()));
  }
  return Py_NewRef(Py_None);
}

bool OperandOf::set_compared(PyObject* object, Location where) {
  int overflow = 0;
  if (PyLong_Check(object)) (void)PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) return set(object, where);
  const auto failed = [] {
    const bool error = PyErr_Occurred() != nullptr;
    PyErr_Clear();
    return error;
  };
  (void)PyLong_AsUnsignedLongLong(object);
  if (!failed()) return set(object, where);
  double nearest = PyLong_AsDouble(object);
  if (failed()) nearest = overflow * HUGE_VAL;
  operand_.emplace(nearest, where);
  return true;
}

bool OperandOf::set_number(PyObject* object, Location where) {
  if (const auto scalar = to_scalar(object)) operand_.emplace(*scalar, where);
  else if (const auto number = to_complex(object)) operand_.emplace(*number, where);
  else return false;
  return true;
}

}  // namespace weft::python
