// Errors from C++ to Python's own kinds and back, and references that other threads drop.
#include "object.hpp"

#include <unistd.h>

#include <memory>
#include <new>

#include "../ops/linalg.hpp"
#include "../ops/record.hpp"
#include "../tensor/atomic.hpp"
#include "../tensor/error.hpp"
#include "../tensor/shortened.hpp"
#include "convert.hpp"
#include "error_types.hpp"

namespace weft::python {

namespace {

// A Python error on its way through C++ frames, which may be left on another thread or without the interpreter.
class CarriedError : public std::exception {
 public:
  CarriedError() {
#if PY_VERSION_HEX >= 0x030c0000
    PyObject* value = PyErr_GetRaisedException();
#else
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != nullptr) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
#endif
    value_ = std::shared_ptr<PyObject>(value, drop_later);
    text_ = std::string("a Python function raised ") + Py_TYPE(value)->tp_name;
  }
  const char* what() const noexcept override { return text_.c_str(); }
  void restore() const {
    PyObject* value = Py_NewRef(value_.get());
#if PY_VERSION_HEX >= 0x030c0000
    PyErr_SetRaisedException(value);
#else
    PyErr_Restore(Py_NewRef(Py_TYPE(value)), value, PyException_GetTraceback(value));
#endif
  }

 private:
  std::shared_ptr<PyObject> value_;
  std::string text_;
};

}  // namespace

void carry_error() { throw CarriedError(); }

void wait_for_exit() noexcept {
  for (;;) pause();
}

constinit thread_local PyThreadState* waiting_state = nullptr;

void take_back(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);  // it looks at the address alone where Python is ending or has ended
  } catch (...) {
    wait_for_exit();
  }
}

PyGILState_STATE WithGil::ensure() noexcept {
  if (Py_IsInitialized() == 0) wait_for_exit();
  try {
    return PyGILState_Ensure();
  } catch (...) {
    wait_for_exit();
  }
}

std::string text_of(PyObject* text) {
  Py_ssize_t length = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes == nullptr) throw PythonError();
  return std::string(bytes, static_cast<size_t>(length));
}

namespace {

/// weft.NAME, an Error and, where there is one, Python's own kind. Python's kind alone if there is no memory.
PyObject* new_kind(const char* name, PyObject* kind, const char* document) {
  static PyObject* const base = PyErr_NewExceptionWithDoc(
      "weft.Error", "The base of Weft's errors; PyTorch's programs catch them as RuntimeError.", PyExc_RuntimeError,
      nullptr);
  PyObject* made = nullptr;
  if (base != nullptr && kind == nullptr) {
    made = name == nullptr ? base : PyErr_NewExceptionWithDoc(name, document, base, nullptr);
  } else if (PyObject* bases = base != nullptr ? PyTuple_Pack(2, base, kind) : nullptr) {
    made = PyErr_NewExceptionWithDoc(name, document, bases, nullptr);
    Py_DECREF(bases);
  }
  if (made == nullptr) PyErr_Clear();
  return made != nullptr ? made : kind != nullptr ? kind : PyExc_RuntimeError;
}

struct Kinds {
  PyObject* error = new_kind(nullptr, nullptr, nullptr);
  PyObject* shape = new_kind("weft.ShapeError", PyExc_ValueError, "Sizes or ranks that do not match.");
  PyObject* dtype = new_kind("weft.DTypeError", PyExc_TypeError, "A dtype that the op does not take.");
  PyObject* device = new_kind("weft.DeviceError", nullptr, "No such device, or operands on different devices.");
  PyObject* value = new_kind("weft.errors.ValueError", PyExc_ValueError, "Any other invalid argument.");
  PyObject* key =
      new_kind("weft.errors.KeyError", PyExc_KeyError, "No entry of this name in a file, a map or a state.");
  PyObject* zero = new_kind("weft.errors.ZeroDivisionError", PyExc_ZeroDivisionError, "An integer divided by 0.");
  PyObject* autograd = new_kind("weft.AutogradError", nullptr, "No graph, or one that was freed or overwritten.");
  PyObject* format = new_kind("weft.FormatError", PyExc_ValueError, "Malformed bytes in a file or a saved state.");
  PyObject* version = new_kind("weft.VersionError", PyExc_ValueError, "A file of a later version of Weft.");
  PyObject* finite = new_kind("weft.NonFiniteError", nullptr, "The first NaN or infinity.");
  PyObject* linalg = new_kind("weft.linalg.LinAlgError", nullptr, "A matrix that the function cannot take.");
  PyObject* memory =
      new_kind("weft.OutOfMemoryError", PyExc_MemoryError,
               "A failed allocation. `requested`, `free`, `allocated`, `reserved` and `limit` are in bytes, `limit` is "
               "0 if none was set; `device` is the memory's device.");
};

const Kinds& kinds() noexcept {
  static const Kinds made;
  return made;
}

}  // namespace

void throw_error(PyObject* kind, const std::string& text) {
  PyErr_SetString(kind == PyExc_ValueError ? kinds().value : kind, shortened(text, 800).c_str());
  throw PythonError();
}

void add_errors(PyObject* module) {
  const Kinds& k = kinds();
  for (PyObject* kind : {k.error, k.shape, k.dtype, k.device, k.value, k.key, k.zero, k.autograd, k.format, k.version,
                         k.finite, k.linalg, k.memory}) {
    const Ref name(attribute(kind, "__name__"));
    if (PyObject_SetAttr(module, name.get(), kind) != 0) throw PythonError();
  }
}

namespace {

/// Sets the attributes that memory allows; the error itself comes first.
void set_out_of_memory(const OutOfMemoryError& e) noexcept {
  PyErr_SetString(kinds().memory, e.what());
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const auto set = [&](const char* name, PyObject* field) {
    if (field == nullptr || PyObject_SetAttrString(value, name, field) != 0) PyErr_Clear();
    Py_XDECREF(field);
  };
  set("device", from_device(e.device));
  const std::pair<const char*, size_t> fields[] = {{"requested", e.requested},
                                                   {"free", e.free},
                                                   {"allocated", e.allocated},
                                                   {"reserved", e.reserved},
                                                   {"limit", e.limit}};
  for (const auto& [name, bytes] : fields) set(name, PyLong_FromSize_t(bytes));
  PyErr_Restore(type, value, trace);
}

}  // namespace

void set_error_from_exception() noexcept {
  try {
    throw;
  } catch (const PythonError&) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "an error was lost");
  } catch (const CarriedError& e) {
    e.restore();
  } catch (const OutOfMemoryError& e) {
    set_out_of_memory(e);
  } catch (const IndexError& e) {
    PyErr_SetString(PyExc_IndexError, e.what());
  } catch (const KeyError& e) {
    PyErr_SetString(kinds().key, e.what());
  } catch (const DTypeError& e) {
    PyErr_SetString(kinds().dtype, e.what());
  } catch (const ShapeError& e) {
    PyErr_SetString(kinds().shape, e.what());
  } catch (const ZeroDivisionError& e) {
    PyErr_SetString(kinds().zero, e.what());
  } catch (const ValueError& e) {
    PyErr_SetString(kinds().value, e.what());
  } catch (const LinAlgError& e) {
    PyErr_SetString(kinds().linalg, e.what());
  } catch (const DeviceError& e) {
    PyErr_SetString(kinds().device, e.what());
  } catch (const AutogradError& e) {
    PyErr_SetString(kinds().autograd, e.what());
  } catch (const NonFiniteError& e) {
    PyErr_SetString(kinds().finite, e.what());
  } catch (const VersionError& e) {
    PyErr_SetString(kinds().version, e.what());
  } catch (const FormatError& e) {
    PyErr_SetString(kinds().format, e.what());
  } catch (const IoError& e) {
    PyErr_SetString(PyExc_OSError, e.what());
  } catch (const NotImplementedError& e) {
    PyErr_SetString(PyExc_NotImplementedError, e.what());
  } catch (const std::bad_variant_access&) {
    PyErr_SetString(PyExc_TypeError, "an argument has a type that it cannot have");
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const Error& e) {
    PyErr_SetString(kinds().error, e.what());
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown C++ exception");
  }
}

namespace {

struct Noted {
  PyObject* object;
  Noted* next;
};
Atomic<Noted*> noted{nullptr};

int drop_from_interpreter(void*) {
  drop_noted();
  return 0;
}

}  // namespace

void drop_later(PyObject* object) {
  auto* entry = new (std::nothrow) Noted{object, noted.load(MemoryOrder::relaxed)};
  if (entry == nullptr) return;  // leaked: better than a lock here
  while (!noted.compare_exchange_weak(entry->next, entry, MemoryOrder::release)) {
  }
  if (entry->next == nullptr && Py_IsInitialized()) Py_AddPendingCall(drop_from_interpreter, nullptr);
}

void drop_noted() {
  Noted* entry = noted.exchange(nullptr, MemoryOrder::acquire);
  while (entry != nullptr) {
    Noted* next = entry->next;
    Py_DECREF(entry->object);
    delete entry;
    entry = next;
  }
}

std::shared_ptr<PyObject> shared_reference(PyObject* borrowed) {
  return std::shared_ptr<PyObject>(Py_NewRef(borrowed), drop_later);
}

}  // namespace weft::python
