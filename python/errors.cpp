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

void throw_error(PyObject* kind, const std::string& text) {
  PyErr_SetString(kind, shortened(text, 800).c_str());
  throw PythonError();
}

std::string text_of(PyObject* text) {
  Py_ssize_t length = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes == nullptr) throw PythonError();
  return std::string(bytes, static_cast<size_t>(length));
}

PyObject* linalg_error() noexcept {
  static PyObject* const kind = PyErr_NewException("weft.linalg.LinAlgError", PyExc_RuntimeError, nullptr);
  return kind != nullptr ? kind : PyExc_RuntimeError;
}

PyObject* out_of_memory_error() noexcept {
  static PyObject* const kind =
      PyErr_NewExceptionWithDoc("weft.OutOfMemoryError",
                                "A failed allocation. `requested`, `free`, `allocated`, `reserved` and `limit` are in "
                                "bytes, `limit` is 0 where none "
                                "was set; `device` is where the memory was asked for.",
                                PyExc_MemoryError, nullptr);
  return kind != nullptr ? kind : PyExc_MemoryError;
}

namespace {

/// Sets the attributes that memory allows; the error itself comes first.
void set_out_of_memory(const OutOfMemoryError& e) noexcept {
  PyErr_SetString(out_of_memory_error(), e.what());
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
    PyErr_SetString(PyExc_KeyError, e.what());
  } catch (const DTypeError& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
  } catch (const ShapeError& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const ZeroDivisionError& e) {
    PyErr_SetString(PyExc_ZeroDivisionError, e.what());
  } catch (const ValueError& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const LinAlgError& e) {
    PyErr_SetString(linalg_error(), e.what());
  } catch (const DeviceError& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (const VersionError& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const FormatError& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const IoError& e) {
    PyErr_SetString(PyExc_OSError, e.what());
  } catch (const NotImplementedError& e) {
    PyErr_SetString(PyExc_NotImplementedError, e.what());
  } catch (const std::bad_variant_access&) {
    PyErr_SetString(PyExc_TypeError, "an argument has a type that it cannot have");
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
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
