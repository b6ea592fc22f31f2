// weft.Tensor: the type, its operators and properties. Ops and most methods are put on it as weft.op objects.
#include "tensor_type.hpp"

#include <structmember.h>

#include <algorithm>
#include <cstring>

#include "../autograd/engine.hpp"
#include "../autograd/gradient_rows.hpp"
#include "../autograd/hooks.hpp"
#include "../autograd/node.hpp"
#include "../autograd/program_watch.hpp"
#include "../ops/matmul.hpp"
#include "../ops/pointwise.hpp"
#include "../tensor/capture_recorder.hpp"

namespace weft::python {

PyTypeObject* tensor_type = nullptr;

PyObject* wrap(Tensor tensor) {
  if (!tensor.defined()) return Py_NewRef(Py_None);
  // One without references is being destroyed.
  auto* const living = static_cast<PyObject*>(tensor.impl()->foreign);
  if (living != nullptr && Py_REFCNT(living) > 0) return Py_NewRef(living);
  auto* self = PyObject_GC_New(TensorObject, tensor_type);
  if (self == nullptr) return PyErr_NoMemory();
  self->weak_references = nullptr;
  new (&self->tensor) Tensor(std::move(tensor));
  new (&self->holders) decltype(TensorObject::holders)();
  self->tensor.impl()->foreign = self;
  if (const TensorImpl* impl = self->tensor.impl(); WEFT_UNLIKELY(impl->accumulates)) {
    if (impl->node->hooks.load(MemoryOrder::acquire) != nullptr) track_hooks(&self->ob_base);
  }
  return &self->ob_base;
}

void replace_tensor(PyObject* object, Tensor tensor) {
  Tensor& held = reinterpret_cast<TensorObject*>(object)->tensor;
  if (held.impl()->foreign == object) held.impl()->foreign = nullptr;
  held = std::move(tensor);
  held.impl()->foreign = object;
}

void track_hooks(PyObject* tensor) {
  if (!PyObject_GC_IsTracked(tensor)) PyObject_GC_Track(tensor);
}

void add_holder(PyObject* tensor, const std::shared_ptr<const TensorHolder>& holder) {
  auto& holders = reinterpret_cast<TensorObject*>(tensor)->holders;
  if (holders == nullptr) holders = std::make_unique<std::vector<std::weak_ptr<const TensorHolder>>>();
  std::erase_if(*holders, [&](const auto& known) { return known.expired() || known.lock() == holder; });
  holders->push_back(holder);
}

PyObject* wrap_as(PyTypeObject* type, Tensor tensor) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  new (&reinterpret_cast<TensorObject*>(self)->tensor) Tensor(std::move(tensor));
  new (&reinterpret_cast<TensorObject*>(self)->holders) decltype(TensorObject::holders)();
  if (TensorImpl* const impl = tensor_of(self).impl()) impl->foreign = self;
  return self;
}

namespace {

TensorObject* of(PyObject* self) { return reinterpret_cast<TensorObject*>(self); }

// ---- life ----

PyObject* tensor_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (keywords != nullptr && PyDict_GET_SIZE(keywords) != 0 && type == tensor_type) {
      throw_type_error("Tensor() takes no keyword arguments; use weft.tensor");
    }
    if (PyTuple_GET_SIZE(arguments) < 1) throw_type_error("Tensor() misses the required argument 'data'");
    PyObject* data = PyTuple_GET_ITEM(arguments, 0);
    Tensor tensor = is_tensor(data) ? tensor_of(data).detach(here()) : from_object(data, {}, here());
    return wrap_as(type, std::move(tensor));
  });
}

void tensor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (TensorImpl* const impl = of(self)->tensor.impl(); impl != nullptr && impl->foreign == self)
    impl->foreign = nullptr;
  if (of(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  of(self)->tensor.~Tensor();
  of(self)->holders.~unique_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

/// The references to a tensor that the collector follows: this object's own, and those of modules and optimizers.
int64_t followed_references(PyObject* self) {
  int64_t count = 1;
  if (of(self)->holders == nullptr) return count;
  for (const auto& weak : *of(self)->holders) {
    if (const auto holder = weak.lock()) count += holder->references(self);
  }
  return count;
}

// A hook on a tensor may hold the tensor, or a module or an optimizer of it: cycles that the collector sees through the
// tensor's hooks.
int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  struct Visit {
    visitproc visit;
    void* context;
    int result = 0;
  } state{visit, arg};
  detail::visit_foreign(
      of(self)->tensor, followed_references(self),
      [](void* foreign, void* given) {
        auto& s = *static_cast<Visit*>(given);
        if (s.result == 0) s.result = s.visit(static_cast<PyObject*>(foreign), s.context);
      },
      &state);
  return state.result;
}
int tensor_clear(PyObject* self) {
  detail::clear_hooks(of(self)->tensor, followed_references(self));
  return 0;
}

// ---- operators ----

PyObject* not_implemented() { return Py_NewRef(Py_NotImplemented); }

bool is_large(const Operand& x) { return x.tensor().numel() >= elements_worth_a_switch; }

template <Tensor (*f)(const Operand&, const Operand&), auto set = &OperandOf::set>
PyObject* binary(PyObject* a, PyObject* b) {
  return guarded<PyObject*>(nullptr, [&] {
    const Location where = here();
    OperandOf first, second;
    if (!(first.*set)(a, where) || !(second.*set)(b, where)) return not_implemented();
    Tensor result;
    {
      const WithoutGil others(is_large(first.get()) || is_large(second.get()));
      result = f(first.get(), second.get());
    }
    return wrap(std::move(result));
  });
}

template <const Tensor& (*f)(const Tensor&, const Operand&)>
PyObject* in_place(PyObject* self, PyObject* b) {
  return guarded<PyObject*>(nullptr, [&] {
    OperandOf other;
    if (!is_tensor(self) || !other.set(b, here())) return not_implemented();
    {
      const WithoutGil others(is_large(other.get()) || tensor_of(self).numel() >= elements_worth_a_switch);
      f(tensor_of(self), other.get());
    }
    return Py_NewRef(self);
  });
}

template <Tensor (*f)(const Operand&)>
PyObject* unary(PyObject* self) {
  return guarded<PyObject*>(nullptr, [&] { return wrap(f(Operand(tensor_of(self), here()))); });
}

// Ops that the binding finds by name, since they may come or be absent.
PyObject* by_name(const char* name, PyObject* a, PyObject* b) {
  static PyObject* ops = [] {
    const Ref module(PyImport_ImportModule("weft"));
    return attribute(module.get(), "_operators").release();
  }();
  PyObject* function = PyDict_GetItemString(ops, name);
  if (function == nullptr) {
    PyErr_Format(PyExc_NotImplementedError, "weft has no op for the operator %s yet", name);
    throw PythonError();
  }
  PyObject* arguments[] = {a, b};
  return PyObject_Vectorcall(function, arguments, b == nullptr ? 1 : 2, nullptr);
}
bool is_operand(PyObject* object) { return is_tensor(object) || is_number(object) || to_complex(object); }
template <int number>
PyObject* named(PyObject* a, PyObject* b) {
  static constexpr const char* names[] = {"&", "|", "^", "<<", ">>"};
  return guarded<PyObject*>(
      nullptr, [&] { return is_operand(a) && is_operand(b) ? by_name(names[number], a, b) : not_implemented(); });
}
PyObject* divmod(PyObject* a, PyObject* b) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (!is_operand(a) || !is_operand(b)) return not_implemented();
    const Ref quotient(binary<floor_divide>(a, b)), rest(binary<remainder>(a, b));
    return PyTuple_Pack(2, quotient.get(), rest.get());
  });
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) return not_implemented();
  return binary<pow>(a, b);
}
PyObject* power_in_place(PyObject* a, PyObject* b, PyObject*) { return in_place<pow_>(a, b); }

PyObject* invert(PyObject* self) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    if (x.dtype() == DType::boolean) return wrap(logical_not(Operand(x, here())));
    if (is_inexact(x.dtype())) throw_type_error("~: expected integers or bool, got " + std::string(name(x.dtype())));
    return by_name("~", self, nullptr);
  });
}

PyObject* matrix_product(PyObject* a, PyObject* b) {
  return guarded<PyObject*>(nullptr, [&] {
    if (!is_tensor(a) || !is_tensor(b)) return not_implemented();
    const Location where = here();
    Tensor result;
    {
      const WithoutGil others(tensor_of(a).numel() + tensor_of(b).numel() >= elements_worth_a_switch / 4);
      result = matmul(tensor_of(a), tensor_of(b), where);
    }
    return wrap(std::move(result));
  });
}

template <Tensor (*f)(const Operand&, const Operand&)>
PyObject* compared(PyObject* a, PyObject* b) {
  return binary<f, &OperandOf::set_compared>(a, b);
}
PyObject* compare(PyObject* a, PyObject* b, int op) {
  switch (op) {
    case Py_LT:
      return compared<lt>(a, b);
    case Py_LE:
      return compared<le>(a, b);
    case Py_EQ:
      return compared<eq>(a, b);
    case Py_NE:
      return compared<ne>(a, b);
    case Py_GT:
      return compared<gt>(a, b);
    default:
      return compared<ge>(a, b);
  }
}

Py_hash_t hash(PyObject* self) {
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(tensor_of(self).impl()) >> 4);
}

// ---- one element ----

const Tensor& of_one_element(PyObject* self, const char* what) {
  const Tensor& x = tensor_of(self);
  if (x.numel() != 1) {
    throw_error(PyExc_ValueError, std::string(what) + ": expected one element, got " + std::to_string(x.numel()) +
                                      " of shape " + x.shape().text());
  }
  return x;
}

complex128 only_complex(PyObject* self, const char* what) {
  const Tensor& x = of_one_element(self, what);
  const Location where = here();
  const WithoutGil others(!x.device().is_cpu());
  return x.item<complex128>(where);
}

Scalar only_element(PyObject* self, const char* what) {
  const Tensor& x = of_one_element(self, what);
  const Location where = here();
  const WithoutGil others(!x.device().is_cpu());
  return x.item_scalar(where);
}

PyObject* item(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    if (!is_complex(tensor_of(self).dtype())) return from_scalar(only_element(self, "item"));
    const complex128 z = only_complex(self, "item");
    return PyComplex_FromDoubles(z.re, z.im);
  });
}
int truth(PyObject* self) {
  return guarded<int>(-1, [&] {
    if (is_complex(tensor_of(self).dtype())) {
      const complex128 z = only_complex(self, "bool");
      return z.re != 0 || z.im != 0;
    }
    if (tensor_of(self).numel() != 1) {
      throw_error(PyExc_ValueError, "bool: a tensor of shape " + tensor_of(self).shape().text() +
                                        " is no condition\n  use t.any(), t.all() or weft.equal(a, b)");
    }
    const Scalar s = only_element(self, "bool");
    return s.is_floating() ? s.to<double>() != 0 : s.to<int64_t>() != 0;
  });
}
PyObject* as_float(PyObject* self) {
  return guarded<PyObject*>(nullptr, [&] { return PyFloat_FromDouble(only_element(self, "float").to<double>()); });
}
PyObject* as_int(PyObject* self) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const Scalar s = only_element(self, "int");
    return s.is_floating() ? PyLong_FromDouble(s.to<double>()) : PyNumber_Long(Ref(from_scalar(s)).get());
  });
}
PyObject* as_index(PyObject* self) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (!is_integer(tensor_of(self).dtype())) {
      throw_type_error("index: expected an integer tensor of one element, got " +
                       std::string(name(tensor_of(self).dtype())) + " " + tensor_of(self).shape().text());
    }
    return PyNumber_Long(Ref(from_scalar(only_element(self, "index"))).get());
  });
}

// ---- all elements ----

PyObject* element(const char* data, DType dtype) {
  return visit_dtype(dtype, [&]<class T>() -> PyObject* {
    const T value = element_at<T>(data);
    if constexpr (std::is_same_v<T, bool>) return PyBool_FromLong(value);
    else if constexpr (std::is_integral_v<T>) {
      return std::is_signed_v<T> ? PyLong_FromLongLong(static_cast<long long>(value))
                                 : PyLong_FromUnsignedLongLong(static_cast<unsigned long long>(value));
    } else {
      if constexpr (std::is_floating_point_v<T>) return PyFloat_FromDouble(value);
      else if constexpr (ComplexNumber<T>) return PyComplex_FromDoubles(value.re, value.im);
      else return PyFloat_FromDouble(to_float(value));
    }
  });
}
PyObject* nested(const Layout& layout, const char* data, int dim) {
  if (dim == layout.rank) return element(data, layout.dtype);
  Ref list(PyList_New(static_cast<Py_ssize_t>(layout.sizes[dim])));
  for (int64_t i = 0; i < layout.sizes[dim]; ++i) {
    PyObject* part = nested(layout, data + i * layout.strides[dim], dim + 1);
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Ref(part).release());
  }
  return list.release();
}
PyObject* tolist(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    const Location where = here();
    detail::refuse_recording("values are read on the host");
    detail::tell_of_reading(tensor_of(self), "tolist", where);
    const detail::UnwatchedScope told;
    const Tensor x = tensor_of(self).detach().to(Device(), where);
    return nested(x.raw_view().layout, static_cast<const char*>(x.data_ptr()), 0);
  });
}

PyObject* repr(PyObject* self) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const std::string text = tensor_of(self).text();
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  });
}

Py_ssize_t length(PyObject* self) {
  const Tensor& x = tensor_of(self);
  if (x.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "a 0-d tensor has no len()");
    return -1;
  }
  return static_cast<Py_ssize_t>(x.sizes()[0]);
}

PyObject* sequence_item(PyObject* self, Py_ssize_t i) {
  return guarded<PyObject*>(nullptr, [&] { return wrap(tensor_of(self).select(0, i, here())); });
}

PyObject* iterate(PyObject* self) {
  if (tensor_of(self).dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "a 0-d tensor cannot be iterated over");
    return nullptr;
  }
  return PySeqIter_New(self);
}

// ---- methods that are not ops ----

PyObject* backward(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&] {
    const Location where = here();
    Tensor seed;
    BackwardOptions options;
    if (count != 0 || keywords != nullptr) {
      static const char* names[] = {"gradient", "retain_graph", "create_graph"};
      PyObject* values[3] = {};
      if (count > 3) throw_type_error("backward() takes at most 3 positional arguments");
      std::copy(arguments, arguments + count, values);
      for (Py_ssize_t k = 0; keywords != nullptr && k < PyTuple_GET_SIZE(keywords); ++k) {
        const std::string name = text_of(PyTuple_GET_ITEM(keywords, k));
        const auto at = std::find(names, names + 3, name);
        if (at == names + 3) throw_type_error("backward() got an unexpected keyword argument '" + name + "'");
        values[at - names] = arguments[count + k];
      }
      if (values[0] != nullptr && values[0] != Py_None) {
        if (!is_tensor(values[0])) {
          throw_type_error("backward(): argument 'gradient': expected a Tensor, got " + type_name(values[0]));
        }
        seed = tensor_of(values[0]);
      }
      const auto flag = [](PyObject* object) { return object != nullptr && PyObject_IsTrue(object) == 1; };
      options.create_graph = flag(values[2]);
      options.retain_graph =
          flag(values[1]) || (options.create_graph && (values[1] == nullptr || values[1] == Py_None));
    }
    const Tensor root = tensor_of(self);
    {
      const WithoutGil others;
      if (seed.defined()) root.backward(seed, options, where);
      else root.backward(options, where);
    }
    drop_noted();
    return Py_NewRef(Py_None);
  });
}

int dimension(PyObject* object, const char* function) {
  const auto dim = to_integer(object);
  if (!dim) throw_type_error(std::string(function) + "(): argument 'dim': expected an int, got " + type_name(object));
  if (*dim != static_cast<int>(*dim)) throw_error(PyExc_IndexError, std::string(function) + "(): no such dimension");
  return static_cast<int>(*dim);
}

PyObject* stride(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    if (count == 0) return from_dims(x.strides());
    return PyLong_FromLongLong(x.stride(dimension(arguments[0], "stride"), here()));
  });
}
PyObject* size(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    if (count == 0) return from_sizes(x.sizes());
    return PyLong_FromLongLong(x.size(dimension(arguments[0], "size"), here()));
  });
}
PyObject* numpy(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&] {
    const bool named = keywords != nullptr && PyTuple_GET_SIZE(keywords) == 1 &&
                       PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, 0), "force") == 0;
    if (count != 0 || (keywords != nullptr && PyTuple_GET_SIZE(keywords) != 0 && !named)) {
      throw_type_error("numpy() takes the keyword argument 'force' alone");
    }
    return to_numpy(self, named && PyObject_IsTrue(arguments[0]) == 1);
  });
}

template <auto f>
constexpr PyCFunction simple = [](PyObject* self, PyObject*) -> PyObject* {
  return guarded<PyObject*>(nullptr, [&] { return f(tensor_of(self)); });
};

template <class F>
PyCFunction fast(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef methods[] = {
    {"item", item, METH_NOARGS, "item()\n--\n\nThe only element as a Python number; waits for a device."},
    {"tolist", tolist, METH_NOARGS, "tolist()\n--\n\nThe elements as nested lists of Python numbers."},
    {"numpy", fast(numpy), METH_FASTCALL | METH_KEYWORDS,
     "numpy(*, force=False)\n--\n\nA NumPy array over the same memory. force detaches, and copies from a device."},
    {"backward", fast(backward), METH_FASTCALL | METH_KEYWORDS,
     "backward(gradient=None, retain_graph=None, create_graph=False)\n--\n\nFills .grad of every leaf that this "
     "depends on."},
    {"stride", fast(stride), METH_FASTCALL, "stride(dim=None)\n--\n\nStrides in elements."},
    {"size", fast(size), METH_FASTCALL, "size(dim=None)\n--\n\nThe shape, or one size."},
    {"dim", simple<[](const Tensor& x) { return PyLong_FromLong(x.dim()); }>, METH_NOARGS,
     "dim()\n--\n\nThe number of dimensions."},
    {"numel", simple<[](const Tensor& x) { return PyLong_FromLongLong(x.numel()); }>, METH_NOARGS,
     "numel()\n--\n\nThe number of elements."},
    {"element_size", simple<[](const Tensor& x) { return PyLong_FromLongLong(x.itemsize()); }>, METH_NOARGS,
     "element_size()\n--\n\nBytes of one element."},
    {"data_ptr", simple<[](const Tensor& x) { return PyLong_FromVoidPtr(x.data_ptr()); }>, METH_NOARGS,
     "data_ptr()\n--\n\nAddress of the first element."},
    {"storage_offset", simple<[](const Tensor& x) { return PyLong_FromLongLong(x.storage_offset()); }>, METH_NOARGS,
     "storage_offset()\n--\n\nElements before the first one in the storage."},
    {"is_contiguous", simple<[](const Tensor& x) { return PyBool_FromLong(x.is_contiguous()); }>, METH_NOARGS,
     "is_contiguous()\n--\n\nRow-major without gaps."},
    {"is_floating_point", simple<[](const Tensor& x) { return PyBool_FromLong(is_floating(x.dtype())); }>, METH_NOARGS,
     "is_floating_point()\n--\n\nTrue for floats of any size."},
    {"is_complex", simple<[](const Tensor& x) { return PyBool_FromLong(is_complex(x.dtype())); }>, METH_NOARGS,
     "is_complex()\n--\n\nTrue for complex numbers."},
    {"__dlpack__", fast(to_dlpack), METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA capsule for other libraries."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "__dlpack_device__()\n--\n\nDLPack's type and number of the device."},
    {"_impl", simple<[](const Tensor& x) { return PyLong_FromVoidPtr(x.impl()); }>, METH_NOARGS,
     "Equal for two objects that are one tensor."},
    {}};

template <auto f>
constexpr getter get =
    [](PyObject* self, void*) -> PyObject* { return guarded<PyObject*>(nullptr, [&] { return f(tensor_of(self)); }); };

// Rows become dense under a lock, and its holder may wait for the GIL.
Tensor grad_of(const Tensor& x) {
  if (WEFT_LIKELY(!detail::has_rows(x))) {
    return x.impl()->accumulates || x.impl()->node == nullptr ? x.grad() : x.grad(here());
  }
  return without_gil([&](Location where) { return x.grad(where); });
}

int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded<int>(-1, [&] {
    if (value != nullptr && value != Py_None && !is_tensor(value)) {
      throw_type_error("grad: expected a Tensor or None, got " + type_name(value));
    }
    tensor_of(self).set_grad(value == nullptr || value == Py_None ? Tensor() : tensor_of(value), here());
    return 0;
  });
}
int set_requires_grad(PyObject* self, PyObject* value, void*) {
  return guarded<int>(-1, [&] {
    if (value == nullptr || !PyBool_Check(value)) {
      throw_type_error("requires_grad: expected a bool, got " +
                       (value == nullptr ? std::string("nothing") : type_name(value)));
    }
    tensor_of(self).requires_grad_(value == Py_True, here());
    return 0;
  });
}

Tensor reversed_dims(const Tensor& x) {
  Dims order;
  for (int i = x.dim() - 1; i >= 0; --i) order.push_back(i);
  return x.permute(order, here());
}

PyGetSetDef getters[] = {
    {"shape", get<[](const Tensor& x) { return from_sizes(x.sizes()); }>, nullptr, "The sizes, as a weft.Size.",
     nullptr},
    {"dtype", get<[](const Tensor& x) { return Py_NewRef(dtype_objects[static_cast<int>(x.dtype())]); }>, nullptr,
     "The element type.", nullptr},
    {"device", get<[](const Tensor& x) { return from_device(x.device()); }>, nullptr, "Where the elements are.",
     nullptr},
    {"grad", get<[](const Tensor& x) { return wrap(grad_of(x)); }>, set_grad, "The accumulated gradient, or None.",
     nullptr},
    {"requires_grad", get<[](const Tensor& x) { return PyBool_FromLong(x.requires_grad()); }>, set_requires_grad,
     "Whether autograd follows this tensor.", nullptr},
    {"is_leaf", get<[](const Tensor& x) { return PyBool_FromLong(x.is_leaf()); }>, nullptr,
     "Made by the user rather than by a recorded op.", nullptr},
    {"ndim", get<[](const Tensor& x) { return PyLong_FromLong(x.dim()); }>, nullptr, "The number of dimensions.",
     nullptr},
    {"itemsize", get<[](const Tensor& x) { return PyLong_FromLongLong(x.itemsize()); }>, nullptr,
     "Bytes of one element.", nullptr},
    {"nbytes", get<[](const Tensor& x) { return PyLong_FromLongLong(x.nbytes()); }>, nullptr, "Bytes of all elements.",
     nullptr},
    {"T", get<[](const Tensor& x) { return wrap(reversed_dims(x)); }>, nullptr, "The dimensions in reverse order.",
     nullptr},
    {"mT", get<[](const Tensor& x) { return wrap(x.transpose(-2, -1, here())); }>, nullptr,
     "The last two dimensions exchanged.", nullptr},
    {"H", get<[](const Tensor& x) { return wrap(conj(Operand(x, here())).transpose(-2, -1, here())); }>, nullptr,
     "The last two dimensions exchanged, of complex numbers the conjugates.", nullptr},
    {"mH", get<[](const Tensor& x) { return wrap(conj(Operand(x, here())).transpose(-2, -1, here())); }>, nullptr,
     "The last two dimensions exchanged, of complex numbers the conjugates.", nullptr},
    {"real", get<[](const Tensor& x) { return wrap(x.real(here())); }>, nullptr,
     "A view of the real parts; a real tensor itself.", nullptr},
    {"imag", get<[](const Tensor& x) { return wrap(x.imag(here())); }>, nullptr, "A view of the imaginary parts.",
     nullptr},
    {"data", get<[](const Tensor& x) { return wrap(x.detach(here())); }>, nullptr, "The elements outside the graph.",
     nullptr},
    {"_version", get<[](const Tensor& x) { return PyLong_FromUnsignedLong(x.version()); }>, nullptr,
     "Raised by every write in place.", nullptr},
    {}};

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, nullptr},
                         {}};

template <class F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}

PyType_Slot slots[] = {{Py_tp_new, slot(tensor_new)},
                       {Py_tp_dealloc, slot(tensor_dealloc)},
                       {Py_tp_traverse, slot(tensor_traverse)},
                       {Py_tp_clear, slot(tensor_clear)},
                       {Py_tp_repr, slot(repr)},
                       {Py_tp_hash, slot(hash)},
                       {Py_tp_richcompare, slot(compare)},
                       {Py_tp_iter, slot(iterate)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getters},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>("Tensor(data)\n--\n\nA strided array that may take part in "
                                                     "autograd; weft.tensor and its like make one.")},
                       {Py_nb_add, slot(binary<weft::add>)},
                       {Py_nb_subtract, slot(binary<weft::sub>)},
                       {Py_nb_multiply, slot(binary<weft::mul>)},
                       {Py_nb_true_divide, slot(binary<weft::div>)},
                       {Py_nb_power, slot(power)},
                       {Py_nb_floor_divide, slot(binary<weft::floor_divide>)},
                       {Py_nb_remainder, slot(binary<weft::remainder>)},
                       {Py_nb_divmod, slot(divmod)},
                       {Py_nb_and, slot(named<0>)},
                       {Py_nb_or, slot(named<1>)},
                       {Py_nb_xor, slot(named<2>)},
                       {Py_nb_lshift, slot(named<3>)},
                       {Py_nb_rshift, slot(named<4>)},
                       {Py_nb_matrix_multiply, slot(matrix_product)},
                       {Py_nb_inplace_add, slot(in_place<weft::add_>)},
                       {Py_nb_inplace_subtract, slot(in_place<weft::sub_>)},
                       {Py_nb_inplace_multiply, slot(in_place<weft::mul_>)},
                       {Py_nb_inplace_true_divide, slot(in_place<weft::div_>)},
                       {Py_nb_inplace_floor_divide, slot(in_place<weft::floor_divide_>)},
                       {Py_nb_inplace_remainder, slot(in_place<weft::remainder_>)},
                       {Py_nb_inplace_power, slot(power_in_place)},
                       {Py_nb_inplace_and, slot(in_place<weft::bitwise_and_>)},
                       {Py_nb_inplace_or, slot(in_place<weft::bitwise_or_>)},
                       {Py_nb_inplace_xor, slot(in_place<weft::bitwise_xor_>)},
                       {Py_nb_inplace_lshift, slot(in_place<weft::bitwise_left_shift_>)},
                       {Py_nb_inplace_rshift, slot(in_place<weft::bitwise_right_shift_>)},
                       {Py_nb_negative, slot(unary<weft::neg>)},
                       {Py_nb_positive, slot(+[](PyObject* self) { return Py_NewRef(self); })},
                       {Py_nb_absolute, slot(unary<weft::abs>)},
                       {Py_nb_invert, slot(invert)},
                       {Py_nb_bool, slot(truth)},
                       {Py_nb_int, slot(as_int)},
                       {Py_nb_float, slot(as_float)},
                       {Py_nb_index, slot(as_index)},
                       {Py_mp_length, slot(length)},
                       {Py_mp_subscript, slot(get_item)},
                       {Py_mp_ass_subscript, slot(set_item)},
                       {Py_sq_item, slot(sequence_item)},
                       {Py_bf_getbuffer, slot(get_buffer)},
                       {Py_bf_releasebuffer, slot(release_buffer)},
                       {}};
PyType_Spec spec = {"weft.Tensor", sizeof(TensorObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

void add_tensor_type(PyObject* module) {
  tensor_type = reinterpret_cast<PyTypeObject*>(Ref(PyType_FromSpec(&spec)).release());
  if (PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(tensor_type)) < 0) throw PythonError();
}

}  // namespace weft::python
