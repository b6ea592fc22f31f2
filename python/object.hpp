// Common to all files of the binding: the object behind weft.Tensor, owned references, errors in both directions.
//
// References that C++ drops are collected in a list and released where Python code may run, because a hook may be
// destroyed on any thread and under any lock.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../tensor/index.hpp"

namespace weft::python {

/// A module or an optimizer: it has references to tensors in C++, and its Python object holds their Python objects. So
/// the collector of cycles may count these references as ones that it follows.
struct TensorHolder {
  virtual ~TensorHolder() = default;
  /// The references to the tensor of `object`; none if this holder itself has owners that the collector does not see.
  virtual int64_t references(PyObject* object) const = 0;
};

/// weft.Tensor: a handle. One object at a time holds a tensor (TensorImpl::foreign): while it lives, `wrap` returns it.
struct TensorObject {
  PyObject ob_base;
  PyObject* weak_references;
  Tensor tensor;
  /// Those that are gone are expired. Null without any.
  std::unique_ptr<std::vector<std::weak_ptr<const TensorHolder>>> holders;
};
extern PyTypeObject* tensor_type;

inline bool is_tensor(PyObject* object) {
  return Py_TYPE(object) == tensor_type || PyType_IsSubtype(Py_TYPE(object), tensor_type);
}
inline const Tensor& tensor_of(PyObject* object) { return reinterpret_cast<TensorObject*>(object)->tensor; }
/// A tensor over x's memory, which it keeps if x gets other memory.
inline Tensor alias_of(const Tensor& x) {
  return Tensor::adopt(detail::new_alias(x.impl(), x.raw_view().layout, x.raw_view().data));
}
/// A new reference to the tensor's object; None for the undefined tensor, nullptr with MemoryError set where there is
/// no memory.
PyObject* wrap(Tensor tensor);
/// A new object of a subclass of weft.Tensor, without calling __new__ and __init__. It takes the place of an older one.
PyObject* wrap_as(PyTypeObject* type, Tensor tensor);

/// Gives an object another tensor.
void replace_tensor(PyObject* object, Tensor tensor);

/// The collector of cycles looks at this tensor from now on, for hooks that hold their leaf.
void track_hooks(PyObject* tensor);
/// Does nothing if the tensor has this holder already.
void add_holder(PyObject* tensor, const std::shared_ptr<const TensorHolder>& holder);

/// Python's error indicator is set.
struct PythonError {};
/// Throws Python's error as a C++ exception that keeps it, through any frames and threads.
[[noreturn]] void carry_error();
/// Sets the indicator from the exception that is being handled.
void set_error_from_exception() noexcept;
/// A ValueError is Weft's, which is a RuntimeError too.
[[noreturn]] void throw_error(PyObject* kind, const std::string& text);
[[noreturn]] inline void throw_type_error(const std::string& text) { throw_error(PyExc_TypeError, text); }

/// An owned reference; null only where moved from or made empty.
class Ref {
 public:
  Ref() = default;
  /// Adopts a new reference; null means that an error is set.
  explicit Ref(PyObject* owned) : object_(owned) {
    if (owned == nullptr) throw PythonError();
  }
  static Ref share(PyObject* borrowed) { return Ref(Py_NewRef(borrowed)); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

inline Ref attribute(PyObject* object, const char* name) { return Ref(PyObject_GetAttrString(object, name)); }
inline std::string type_name(PyObject* object) { return Py_TYPE(object)->tp_name; }
std::string text_of(PyObject* text);

/// Runs `f`; an exception becomes Python's error and `failure` is returned.
template <class R, class F>
R guarded(R failure, F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    set_error_from_exception();
    return failure;
  }
}

/// If a thread requests the GIL while the interpreter is ending, Python unwinds the thread's stack; after its end it
/// would read freed memory. C++ frames must not be unwound, so the thread sleeps until the process ends.
[[noreturn]] void wait_for_exit() noexcept;

/// The state of this thread while it has given the interpreter away; null else.
extern constinit thread_local PyThreadState* waiting_state;
/// Takes the interpreter back, also from a Python that is ending or has ended: then it sleeps.
void take_back(PyThreadState* state) noexcept;

/// Gives the interpreter to other threads until the end of the scope, where `worth` it.
class WithoutGil {
 public:
  explicit WithoutGil(bool worth = true) {
    if (worth) waiting_state = PyEval_SaveThread();
    worth_ = worth;
  }
  ~WithoutGil() {
    if (worth_) take_back(std::exchange(waiting_state, nullptr));
  }
  WithoutGil(const WithoutGil&) = delete;

 private:
  bool worth_;
};
/// Elements from which an op is worth the switch: about 10 µs.
inline constexpr int64_t elements_worth_a_switch = 16384;

/// Takes the interpreter for a function that C++ calls on any thread.
class WithGil {
 public:
  WithGil() noexcept : waiting_(std::exchange(waiting_state, nullptr)) {
    if (waiting_ != nullptr) take_back(waiting_);
    else ensured_ = ensure();
  }
  ~WithGil() {
    if (waiting_ != nullptr) waiting_state = PyEval_SaveThread();
    else PyGILState_Release(ensured_);
  }
  WithGil(const WithGil&) = delete;

 private:
  /// For a thread that Python did not start, or that has the interpreter already.
  static PyGILState_STATE ensure() noexcept;

  PyThreadState* waiting_;
  PyGILState_STATE ensured_ = PyGILState_UNLOCKED;
};

/// Drops a reference from any thread, with or without the interpreter and whatever lock the caller holds: at once it is
/// only noted, and dropped at a moment when Python code may run.
void drop_later(PyObject* object);
/// Releases the noted references. Needs the GIL.
void drop_noted();
/// A reference that C++ may copy and drop on any thread.
std::shared_ptr<PyObject> shared_reference(PyObject* borrowed);

/// The Python line that is calling: the innermost one outside the package's own files.
Location here();

/// For code that may wait for other ranks, which may be threads of this interpreter.
template <class F>
auto without_gil(F call) {
  const Location where = here();
  const WithoutGil released;
  return call(where);
}
void pass_over_files_in(const std::string& folder);

}  // namespace weft::python
