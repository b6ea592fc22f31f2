// DLPack capsules: taken over from other libraries and made for them.
//
// Read-only memory is never shared, because tensors have no read-only state.
#include <memory>

#include "../tensor/layout.hpp"
#include "../tensor/capture_recorder.hpp"

#include "dlpack.hpp"
#include "window.hpp"

namespace weft::python {

namespace {

dlpack::TypeCode code_of(DType t) {
  using namespace dlpack;
  switch (t) {
    case DType::boolean:
      return code_bool;
    case DType::bf16:
      return code_bfloat;
    case DType::f8_e4m3fn:
      return code_f8_e4m3fn;
    case DType::f8_e5m2:
      return code_f8_e5m2;
    case DType::f8_e4m3fnuz:
      return code_f8_e4m3fnuz;
    case DType::f8_e5m2fnuz:
      return code_f8_e5m2fnuz;
    case DType::f8_e8m0fnu:
      return code_f8_e8m0fnu;
    default:
      return is_floating(t) ? code_float : is_complex(t) ? code_complex : is_signed(t) ? code_int : code_uint;
  }
}

DType dtype_of_code(dlpack::TypeOf type) {
  if (type.lanes == 1) {
    for (int i = 0; i < dtype_count; ++i) {
      const auto t = static_cast<DType>(i);
      if (type.code == code_of(t) && type.bits == 8 * itemsize(t)) return t;
    }
  }
  throw_error(PyExc_BufferError, "from_dlpack(): elements of DLPack type " + std::to_string(type.code) + ", " +
                                     std::to_string(type.bits) + " bits, " + std::to_string(type.lanes) +
                                     " lanes have no dtype in weft");
}

Window window_of(const dlpack::Array& array, bool read_only) {
  if (array.device.kind != dlpack::kind_cpu) {
    throw_error(PyExc_BufferError, "from_dlpack(): only memory of the CPU can be taken over yet");
  }
  if (array.rank < 0 || (array.rank > 0 && array.shape == nullptr)) {
    throw_error(PyExc_BufferError, "from_dlpack(): the capsule has no shape");
  }
  Window w;
  w.dtype = dtype_of_code(array.type);
  w.shape = Dims(std::span<const int64_t>(array.shape, static_cast<size_t>(array.rank)));
  for (const int64_t size : w.shape) {
    if (size < 0) throw_error(PyExc_BufferError, "from_dlpack(): a size is negative");
  }
  w.data = static_cast<char*>(array.data) + array.byte_offset;
  w.read_only = read_only;
  if (array.strides != nullptr) {
    for (int i = 0; i < array.rank; ++i) w.strides.push_back(array.strides[i] * itemsize(w.dtype));
  } else {
    const CallScope call("from_dlpack", here());
    const Layout dense = contiguous_layout(w.shape, w.dtype);
    for (int i = 0; i < array.rank; ++i) w.strides.push_back(dense.strides[i]);
  }
  if (array.data == nullptr && !w.is_empty()) {
    throw_error(PyExc_BufferError, "from_dlpack(): the capsule has no data");
  }
  return w;
}

// Calls the producer's deleter when the last tensor is gone, with the interpreter held.
template <class M>
PyObject* owner_of(M* managed) {
  return PyCapsule_New(managed, "weft_dlpack_owner", [](PyObject* capsule) {
    auto* held = static_cast<M*>(PyCapsule_GetPointer(capsule, "weft_dlpack_owner"));
    if (held != nullptr && held->deleter != nullptr) held->deleter(held);
  });
}

Tensor from_capsule(PyObject* capsule, Copying copying) {
  const Location where = here();
  const auto take = [&](auto* managed, const char* used, bool read_only) {
    const Window w = window_of(managed->array, read_only);
    if (read_only && copying == Copying::never) {
      throw_error(PyExc_BufferError, "from_dlpack(): the memory is read-only, which a tensor cannot be: copy it");
    }
    // From here on the tensor owns the capsule's contents.
    if (PyCapsule_SetName(capsule, used) != 0) throw PythonError();
    const Ref owner(owner_of(managed));
    return from_window(w, owner.get(), copying, where);
  };
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* managed = static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (managed->version.major != 1) {
      throw_error(PyExc_BufferError,
                  "from_dlpack(): DLPack version " + std::to_string(managed->version.major) + " is not known, only 1");
    }
    return take(managed, "used_dltensor_versioned", (managed->flags & dlpack::read_only) != 0);
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    return take(static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor")), "used_dltensor", false);
  }
  const char* name = PyCapsule_GetName(capsule);
  if (name == nullptr) PyErr_Clear();
  throw_error(PyExc_ValueError,
              std::string("from_dlpack(): argument 'x' is no DLPack capsule that is still full, but '") +
                  (name != nullptr ? name : "") + "'");
}

Ref ask_for_capsule(PyObject* object) {
  const Ref method(attribute(object, "__dlpack__"));
  const Ref keywords(Py_BuildValue("{s:(ii)}", "max_version", 1, 0)), none(PyTuple_New(0));
  PyObject* capsule = PyObject_Call(method.get(), none.get(), keywords.get());
  if (capsule == nullptr && PyErr_ExceptionMatches(PyExc_TypeError)) {
    // Producers from before version 1.0 take no such argument.
    PyErr_Clear();
    capsule = PyObject_CallNoArgs(method.get());
  }
  return Ref(capsule);
}

// The contents of a capsule: the tensor, and the arrays of its description.
struct Exported {
  Tensor tensor;
  int64_t shape[max_rank], strides[max_rank];
  dlpack::Managed managed;
  dlpack::ManagedVersioned versioned;
};

dlpack::Array describe_for_others(Exported& e) {
  const Tensor& t = e.tensor;
  const Dims strides = t.strides();
  for (int i = 0; i < t.dim(); ++i) {
    e.shape[i] = t.sizes()[static_cast<size_t>(i)];
    e.strides[i] = strides[i];
  }
  return {t.data_ptr(),
          {dlpack::kind_cpu, 0},
          t.dim(),
          {code_of(t.dtype()), static_cast<uint8_t>(8 * t.itemsize()), 1},
          e.shape,
          e.strides,
          0};
}

void free_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
    managed->deleter(managed);
  } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* managed = static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    managed->deleter(managed);
  }
}

struct DlpackRequest {
  bool versioned = false;
  bool on_cpu = false;
  PyObject* copy = Py_None;
};

DlpackRequest parse_request(PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  if (count != 0) throw_type_error("__dlpack__() takes keyword arguments alone");
  DlpackRequest request;
  for (Py_ssize_t k = 0; keywords != nullptr && k < PyTuple_GET_SIZE(keywords); ++k) {
    const std::string name = text_of(PyTuple_GET_ITEM(keywords, k));
    PyObject* value = arguments[k];
    if (name == "max_version") {
      if (value == Py_None) continue;
      if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 2 || !PyLong_Check(PyTuple_GET_ITEM(value, 0))) {
        throw_type_error("__dlpack__(): argument 'max_version': expected a pair of ints, got " + type_name(value));
      }
      request.versioned = PyLong_AsLong(PyTuple_GET_ITEM(value, 0)) >= 1;
    } else if (name == "copy") {
      if (value != Py_None && !PyBool_Check(value))
        throw_type_error("__dlpack__(): argument 'copy': expected a bool or None, got " + type_name(value));
      request.copy = value;
    } else if (name == "stream") {
      if (value != Py_None) throw_error(PyExc_BufferError, "__dlpack__(): a tensor on the CPU has no stream");
    } else if (name == "dl_device") {
      if (value == Py_None) continue;
      if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 2) {
        throw_type_error("__dlpack__(): argument 'dl_device': expected a pair of ints, got " + type_name(value));
      }
      const auto kind = to_integer(PyTuple_GET_ITEM(value, 0));
      if (!kind || *kind != dlpack::kind_cpu) throw_error(PyExc_BufferError, "__dlpack__(): only to the CPU");
      request.on_cpu = true;
    } else {
      throw_type_error("__dlpack__() got an unexpected keyword argument '" + name + "'");
    }
  }
  return request;
}

}  // namespace

Tensor from_dlpack_object(PyObject* object, Copying copying) {
  if (PyCapsule_CheckExact(object)) return from_capsule(object, copying);
  const Ref capsule = ask_for_capsule(object);
  if (!PyCapsule_CheckExact(capsule.get())) {
    throw_type_error("from_dlpack(): result of __dlpack__: expected a capsule, got " + type_name(capsule.get()));
  }
  return from_capsule(capsule.get(), copying);
}

PyObject* to_dlpack(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&] {
    const DlpackRequest request = parse_request(arguments, count, keywords);
    const Tensor& x = tensor_of(self);
    if (x.requires_grad())
      throw_error(PyExc_BufferError, "a tensor that requires a gradient is not shared: detach() it");
    const bool moves = !x.device().is_cpu();
    if (moves && (!request.on_cpu || request.copy == Py_False)) {
      throw_error(PyExc_BufferError, "memory of " + x.device().name() +
                                         " is not shared: use .to('cpu'), or ask for a copy by dl_device=(1, 0)");
    }
    detail::refuse_recording("its memory is shared with other libraries");
    auto exported = std::make_unique<Exported>();
    const bool copy = moves || request.copy == Py_True;
    exported->tensor = moves ? x.to(Device(), here()) : copy ? x.clone(here()) : alias_of(x);
    const dlpack::Array array = describe_for_others(*exported);
    PyObject* capsule = nullptr;
    if (request.versioned) {
      exported->versioned = {{1, 0},
                             exported.get(),
                             [](dlpack::ManagedVersioned* m) { delete static_cast<Exported*>(m->context); },
                             copy ? dlpack::is_copied : uint64_t{0},
                             array};
      capsule = PyCapsule_New(&exported->versioned, "dltensor_versioned", free_capsule);
    } else {
      exported->managed = {array, exported.get(),
                           [](dlpack::Managed* m) { delete static_cast<Exported*>(m->context); }};
      capsule = PyCapsule_New(&exported->managed, "dltensor", free_capsule);
    }
    if (capsule == nullptr) throw PythonError();
    exported.release();
    return capsule;
  });
}

PyObject* dlpack_device(PyObject* self, PyObject*) {
  const Device device = tensor_of(self).device();
  // 12 is DLPack's "other device".
  const int kind = device.is_cpu() ? 1 : device.type == DeviceType::cuda ? 2 : 12;
  return Py_BuildValue("(ii)", kind, static_cast<int>(device.index));
}

}  // namespace weft::python
