// Calls of ops with objects that compute ops themselves: of other classes, and of subclasses of Tensor.
#include "caster.hpp"
#include "object.hpp"
#include "trampoline.hpp"

namespace weft::python {

Atomic<bool> subclasses_compute{false};

namespace {

// This thread calls ops for a subclass, whose tensors count as plain ones meanwhile.
constinit thread_local bool computes_for_subclass = false;

}  // namespace

PyObject* hand_over(PyObject* op, PyObject* const* arguments, size_t count, PyObject* keywords) {
  static PyObject* const name = PyUnicode_InternFromString("__weft_function__");
  const size_t named = keywords != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(keywords)) : 0;
  const auto handler_of = [](PyObject* object) -> PyObject* {
    if (is_tensor(object) && (computes_for_subclass || !subclasses_compute.load(MemoryOrder::relaxed))) return nullptr;
    PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
    return found;
  };
  PyObject *handler = nullptr, *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  for (size_t i = 0; i < count + named && handler == nullptr; ++i) {
    handler = handler_of(arguments[i]);
    if (handler != nullptr || (!PyList_Check(arguments[i]) && !PyTuple_Check(arguments[i]))) continue;
    const Py_ssize_t length = PySequence_Fast_GET_SIZE(arguments[i]);
    for (Py_ssize_t k = 0; k < length && handler == nullptr; ++k) {
      handler = handler_of(PySequence_Fast_GET_ITEM(arguments[i], k));
    }
  }
  if (handler == nullptr) {
    PyErr_Restore(type, value, trace);
    return nullptr;
  }
  for (PyObject* part : {type, value, trace}) Py_XDECREF(part);
  const Ref positional(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), Py_NewRef(arguments[i]));
  const Ref rest(PyDict_New());
  for (size_t k = 0; k < named; ++k) {
    if (PyDict_SetItem(rest.get(), PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(k)), arguments[count + k]) != 0)
      return nullptr;
  }
  return PyObject_CallFunctionObjArgs(handler, op, positional.get(), rest.get(), nullptr);
}

// A tensor of the subclass over the same memory, with the history of x.
static nb::object as_subclass(const Tensor& x, nb::handle type) {
  if (PyType_Check(type.ptr()) == 0) throw_type_error("as_subclass(): expected a class, got " + type_name(type.ptr()));
  const Location where = here();
  Tensor alias = x.requires_grad() ? x.view(x.shape(), where) : x.detach(where);
  return nb::steal(wrap_as(reinterpret_cast<PyTypeObject*>(type.ptr()), std::move(alias)));
}

void bind_hand_over(nb::module_& m) {
  m.def("_as_subclass", as_subclass);
  m.def("_let_subclasses_compute", [] { subclasses_compute.store(true, MemoryOrder::relaxed); });
  m.def("_compute_for_subclass", [](bool on) { return std::exchange(computes_for_subclass, on); });
}

}  // namespace weft::python
