// Memory of others as tensors and tensors' memory for others: the buffer protocol, NumPy, nested lists. DLPack's part
// is in dlpack.cpp.
#include <cstring>
#include <memory>
#include <vector>

#include "../autograd/program_watch.hpp"
#include "../ops/create.hpp"
#include "../tensor/layout.hpp"
#include "../tensor/capture_recorder.hpp"

#include "window.hpp"

namespace weft::python {

namespace {

// Python's format characters, by dtype; null where there is none.
constexpr const char* formats[dtype_count] = {"?",     "B",     "b",     "H",     "h",  "I", "i",
                                              "Q",     "q",     "e",     nullptr, "f",  "d", nullptr,
                                              nullptr, nullptr, nullptr, nullptr, "Zf", "Zd"};

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t size) {
  if (format == nullptr) return size == 1 ? std::optional(DType::u8) : std::nullopt;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (std::strcmp(format, "Zf") == 0) return DType::c64;
  if (std::strcmp(format, "Zd") == 0) return DType::c128;
  if (*format == '\0' || format[1] != '\0') return {};
  const char c = *format;
  if (c == '?') return DType::boolean;
  if (c == 'e') return DType::f16;
  if (c == 'f') return DType::f32;
  if (c == 'd') return DType::f64;
  if (std::strchr("bhilqn", c) != nullptr) {
    return size == 1 ? DType::i8 : size == 2 ? DType::i16 : size == 4 ? DType::i32 : DType::i64;
  }
  if (std::strchr("BHILQN", c) != nullptr) {
    return size == 1 ? DType::u8 : size == 2 ? DType::u16 : size == 4 ? DType::u32 : DType::u64;
  }
  return {};
}

// Elements with odd strides or addresses, gathered byte by byte.
Tensor gathered(const Window& w, Location where) {
  Tensor out = empty(w.shape, w.dtype, where);
  const auto size = static_cast<size_t>(itemsize(w.dtype));
  char* to = static_cast<char*>(out.data_ptr());
  const auto walk = [&](auto&& self, int dim, const char* from) -> void {
    if (dim == w.shape.size()) {
      std::memcpy(to, from, size);
      to += size;
      return;
    }
    for (int64_t i = 0; i < w.shape[dim]; ++i) self(self, dim + 1, from + i * w.strides[dim]);
  };
  if (out.numel() != 0) walk(walk, 0, static_cast<const char*>(w.data));
  return out;
}

}  // namespace

Tensor from_window(const Window& w, PyObject* owner, Copying copying, Location where) {
  if (w.is_empty()) return empty(w.shape, w.dtype, where);
  const bool shareable = w.strides_fit() && !w.read_only;
  if (!shareable && copying == Copying::never) {
    throw_error(PyExc_ValueError, w.read_only ? "the memory is read-only, which a tensor cannot be: copy it"
                                              : "the memory is not aligned to its elements: copy it");
  }
  if (!shareable || copying == Copying::always) return gathered(w, where);
  Dims strides;
  for (const int64_t stride : w.strides) strides.push_back(stride / itemsize(w.dtype));
  return detail::wrap_memory(w.data, w.shape, strides, {.dtype = w.dtype}, shared_reference(owner), where);
}

namespace {

Dims dims_of(const Py_ssize_t* values, int count) {
  std::vector<int64_t> list(values, values + count);
  return Dims(list);
}

// The integers in which the bits of a dtype without a buffer format travel.
DType bits_of(DType dtype) { return itemsize(dtype) == 1 ? DType::u8 : DType::u16; }

Tensor from_buffer(PyObject* object, Copying copying, Location where);

// An array of ml_dtypes, whose dtypes have PyTorch's names. Undefined for another object.
Tensor from_small_floats(PyObject* object, Copying copying, Location where) {
  if (!has_attribute(object, "dtype")) return {};
  const Ref type(attribute(object, "dtype")), text(PyObject_Str(type.get()));
  const auto dtype = find_dtype(text_of(text.get()));
  if (!dtype || formats[static_cast<int>(*dtype)] != nullptr) return {};
  const Ref bits(PyObject_CallMethod(object, "view", "s", name(bits_of(*dtype))));
  return from_buffer(bits.get(), copying, where).view_bytes(*dtype, where);
}

Tensor from_buffer(PyObject* object, Copying copying, Location where) {
  PyObject* view = PyMemoryView_FromObject(object);
  if (view == nullptr && PyErr_ExceptionMatches(PyExc_ValueError)) {
    // NumPy has arrays that it cannot describe, such as dates.
    PyErr_Clear();
    if (const Tensor small = from_small_floats(object, copying, where); small.defined()) return small;
    throw_type_error("the elements of this " + type_name(object) + " have no dtype in weft");
  }
  const Ref memory(view);
  const Py_buffer* buffer = PyMemoryView_GET_BUFFER(memory.get());
  const auto dtype = dtype_of_format(buffer->format, buffer->itemsize);
  if (!dtype || (buffer->itemsize != itemsize(*dtype))) {
    throw_type_error(std::string("elements of the format '") + (buffer->format != nullptr ? buffer->format : "") +
                     "' have no dtype in weft");
  }
  if (buffer->suboffsets != nullptr) throw_type_error("a buffer of pointers (suboffsets) cannot be a tensor");
  Window w{buffer->buf, *dtype, dims_of(buffer->shape, buffer->ndim), dims_of(buffer->strides, buffer->ndim),
           buffer->readonly != 0};
  return from_window(w, memory.get(), copying, where);
}

}  // namespace

// ---- the buffer protocol ----

namespace {

/// A buffer's memory, which stays if the tensor gets other memory, and its layout, which stays if the tensor changes.
struct Exported {
  Tensor memory;
  Py_ssize_t shape[max_rank] = {}, strides[max_rank] = {};
};

}  // namespace

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  const Tensor& x = tensor_of(self);
  const auto refuse = [](const char* text) {
    PyErr_SetString(PyExc_BufferError, text);
    return -1;
  };
  if (!x.device().is_cpu()) return refuse("the tensor is not on the CPU: use .to('cpu')");
  detail::refuse_recording("its memory is shared with Python");
  if (x.requires_grad()) return refuse("the tensor requires a gradient: use .detach()");
  const char* format = formats[static_cast<int>(x.dtype())];
  if (format == nullptr)
    return refuse("Python has no buffer format for bfloat16 and 8-bit floats: use .to(weft.float32)");
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !x.is_contiguous()) return refuse("the tensor is not contiguous");
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && x.dim() > 1) return refuse("the tensor is row-major");
  if (((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS) &&
      !x.is_contiguous()) {
    return refuse("the tensor is not contiguous");
  }
  const Layout& layout = x.raw_view().layout;
  auto* const exported = guarded<Exported*>(nullptr, [&] { return new Exported{alias_of(x)}; });
  if (exported == nullptr) return -1;
  for (int i = 0; i < layout.rank; ++i) {
    exported->shape[i] = layout.sizes[i];
    exported->strides[i] = layout.strides[i];
  }
  static char nothing[8];
  view->buf = x.data_ptr() != nullptr ? x.data_ptr() : nothing;
  view->obj = Py_NewRef(self);
  view->len = static_cast<Py_ssize_t>(x.nbytes());
  view->itemsize = static_cast<Py_ssize_t>(x.itemsize());
  view->readonly = 0;
  view->ndim = layout.rank;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  view->shape = (flags & PyBUF_ND) != 0 ? exported->shape : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? exported->strides : nullptr;
  view->suboffsets = nullptr;
  view->internal = exported;
  return 0;
}
void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Exported*>(view->internal); }

namespace {

// NumPy's dtype of this name, which ml_dtypes adds. TypeError where that is not installed.
PyObject* dtype_of_ml_dtypes(DType dtype) {
  PyObject* const imported = PyImport_ImportModule("ml_dtypes");
  if (imported == nullptr) {
    PyErr_Clear();
    throw_type_error(std::string("numpy(): NumPy has no ") + name(dtype) +
                     " without the package ml_dtypes: use .to(weft.float32)");
  }
  const Ref module(imported);
  return attribute(module.get(), name(dtype)).release();
}

}  // namespace

PyObject* to_numpy(PyObject* self, bool force) {
  const Tensor& x = tensor_of(self);
  const Location where = here();
  if (!force && x.requires_grad()) {
    throw_error(PyExc_ValueError, "numpy(): the tensor requires a gradient: use .detach().numpy() or force=True");
  }
  if (!force && !x.device().is_cpu()) {
    throw_error(PyExc_ValueError, "numpy(): the tensor is on " + x.device().name() + ": use .to('cpu') or force=True");
  }
  const bool travels_as_bits = formats[static_cast<int>(x.dtype())] == nullptr;
  const Ref small(travels_as_bits ? dtype_of_ml_dtypes(x.dtype()) : Py_NewRef(Py_None));
  if (force) detail::tell_of_reading(x, "numpy", where);
  const detail::UnwatchedScope told;
  const Tensor here = force ? x.detach().to(Device(), where) : x;
  const Ref source(travels_as_bits ? wrap(here.view_bytes(bits_of(x.dtype()), where))
                   : force         ? wrap(here)
                                   : Py_NewRef(self));
  const Ref module(PyImport_ImportModule("numpy")), convert(attribute(module.get(), "asarray"));
  const Ref array(PyObject_CallOneArg(convert.get(), source.get()));
  return travels_as_bits ? PyObject_CallMethod(array.get(), "view", "O", small.get()) : Py_NewRef(array.get());
}

Tensor from_memory(PyObject* object, Copying copying) {
  if (PyObject_CheckBuffer(object)) return from_buffer(object, copying, here());
  if (PyCapsule_CheckExact(object) || has_attribute(object, "__dlpack__")) {
    return from_dlpack_object(object, copying);
  }
  return {};
}

// ---- nested sequences ----

namespace {

// The elements read so far from nested lists.
struct Elements {
  std::vector<Scalar> values;  // of complex ones the real parts
  std::vector<double> imaginary;
  bool any_complex = false;
  std::vector<int64_t> shape;
  bool any_float = false, any_integer = false;
  std::optional<DType> of_tensors;

  void add(Scalar value) {
    values.push_back(value);
    imaginary.push_back(0);
  }
  void add(complex128 value) {
    values.push_back(value.re);
    imaginary.push_back(value.im);
    any_complex = true;
  }
};

[[noreturn]] void ragged() { throw_error(PyExc_ValueError, "tensor(): nested sequences differ in length"); }

void read_elements(PyObject* object, size_t depth, bool first, Elements& out);

void read_tensor(const Tensor& x, size_t depth, bool first, Elements& out) {
  for (size_t i = 0; i < x.sizes().size(); ++i) {
    if (first) out.shape.push_back(x.sizes()[i]);
    else if (depth + i >= out.shape.size() || out.shape[depth + i] != x.sizes()[i]) ragged();
  }
  if (depth + x.sizes().size() != out.shape.size()) ragged();
  out.of_tensors = out.of_tensors ? promote(*out.of_tensors, x.dtype()) : x.dtype();
  detail::tell_of_reading(x, "tensor", here());
  const detail::UnwatchedScope told;
  const Tensor flat = x.detach().to(Device(), here()).reshape({-1}, here());
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const Tensor one = flat.select(0, i, here());
    if (is_complex(x.dtype())) out.add(one.item<complex128>(here()));
    else out.add(one.item_scalar(here()));
  }
}

void read_elements(PyObject* object, size_t depth, bool first, Elements& out) {
  if (depth > 64) throw_error(PyExc_ValueError, "tensor(): sequences are nested too deeply");
  if (is_tensor(object)) return read_tensor(tensor_of(object), depth, first, out);
  if (const auto scalar = to_scalar(object)) {
    if (depth != out.shape.size()) ragged();
    out.any_float = out.any_float || scalar->is_floating();
    out.any_integer = out.any_integer || (!scalar->is_floating() && !scalar->is_bool());
    out.add(*scalar);
    return;
  }
  if (const auto number = to_complex(object)) {
    if (depth != out.shape.size()) ragged();
    out.add(*number);
    return;
  }
  if (PyUnicode_Check(object) || PyDict_Check(object) || PyAnySet_Check(object)) {
    throw_type_error("tensor(): argument 'data' cannot hold a " + type_name(object));
  }
  if (const Tensor part =
          PyList_Check(object) || PyTuple_Check(object) ? Tensor() : from_memory(object, Copying::if_needed);
      part.defined()) {
    return read_tensor(part, depth, first, out);
  }
  if (!PySequence_Check(object)) throw_type_error("tensor(): argument 'data' cannot hold a " + type_name(object));
  const Ref items(PySequence_Tuple(object));
  const auto count = static_cast<int64_t>(PyTuple_GET_SIZE(items.get()));
  if (first) out.shape.push_back(count);
  else if (depth >= out.shape.size() || out.shape[depth] != count) ragged();
  for (int64_t i = 0; i < count; ++i) {
    read_elements(PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i)), depth + 1, first && i == 0, out);
  }
  if (count == 0 && depth + 1 != out.shape.size()) ragged();
}

Tensor from_complex(const Elements& e, DType dtype, Location where) {
  std::vector<complex128> values;
  for (size_t i = 0; i < e.values.size(); ++i) values.emplace_back(e.values[i].to<double>(), e.imaginary[i]);
  return detail::from_elements(values.data(), DType::c128, Dims(e.shape), {.dtype = dtype}, where);
}
template <class T>
Tensor from_values(const Elements& e, DType dtype, Location where) {
  const auto values = std::make_unique<T[]>(e.values.size() + 1);
  for (size_t i = 0; i < e.values.size(); ++i) values[i] = e.values[i].to<T>();
  return detail::from_elements(values.get(), dtype_of<T>(), Dims(e.shape), {.dtype = dtype}, where);
}

}  // namespace

Tensor from_object(PyObject* object, std::optional<DType> dtype, Location where) {
  Tensor whole;
  if (is_tensor(object)) whole = tensor_of(object).detach(where).clone(where);
  else if (!PyList_Check(object) && !PyTuple_Check(object) && !is_number(object) && !to_complex(object)) {
    whole = from_memory(object, Copying::always);
  }
  if (whole.defined()) return dtype ? whole.to(*dtype, where) : whole;
  Elements e;
  read_elements(object, 0, true, e);
  const bool floating = e.any_float || (e.of_tensors && is_floating(*e.of_tensors));
  if (!dtype) {
    dtype = e.of_tensors       ? *e.of_tensors
            : e.any_complex    ? complex_type(default_dtype())
            : e.any_float      ? default_dtype()
            : e.any_integer    ? DType::i64
            : e.values.empty() ? default_dtype()
                               : DType::boolean;
  }
  if (e.any_complex || is_complex(*dtype)) return from_complex(e, *dtype, where);
  if (floating || is_floating(*dtype)) return from_values<double>(e, *dtype, where);
  if (*dtype == DType::u64) return from_values<uint64_t>(e, *dtype, where);
  if (*dtype == DType::boolean) return from_values<bool>(e, *dtype, where);
  for (const Scalar& value : e.values) {
    if (value.held_as() != DType::u64) continue;
    throw_error(PyExc_OverflowError, "tensor(): " + std::to_string(value.to<uint64_t>()) + " is out of the range of " +
                                         name(*dtype) + ": name a dtype that holds it");
  }
  return from_values<int64_t>(e, *dtype, where);
}

// ---- functions of the module ----

namespace {

Copying copying_of(PyObject* copy, const char* function) {
  if (copy == Py_None) return Copying::if_needed;
  if (!PyBool_Check(copy))
    throw_type_error(std::string(function) + "(): argument 'copy': expected a bool or None, got " + type_name(copy));
  return copy == Py_True ? Copying::always : Copying::never;
}

// _from_memory(x, copy): a tensor, or None where x has neither a buffer nor __dlpack__.
PyObject* module_from_memory(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded<PyObject*>(nullptr, [&] {
    if (count != 2) throw_type_error("_from_memory() takes 2 arguments");
    return wrap(from_memory(arguments[0], copying_of(arguments[1], "asarray")));
  });
}
PyObject* module_from_dlpack(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded<PyObject*>(nullptr, [&] {
    if (count != 2) throw_type_error("_from_dlpack() takes 2 arguments");
    if (!PyCapsule_CheckExact(arguments[0]) && !has_attribute(arguments[0], "__dlpack__")) {
      throw_type_error("from_dlpack(): argument 'x': expected a capsule or an object with __dlpack__, got " +
                       type_name(arguments[0]));
    }
    return wrap(from_dlpack_object(arguments[0], copying_of(arguments[1], "from_dlpack")));
  });
}
// _tensor(data, dtype)
PyObject* module_tensor(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded<PyObject*>(nullptr, [&] {
    if (count != 2) throw_type_error("_tensor() takes 2 arguments");
    std::optional<DType> dtype;
    if (arguments[1] != Py_None) {
      dtype = to_dtype(arguments[1]);
      if (!dtype) throw_type_error("tensor(): argument 'dtype': expected a weft.dtype, got " + type_name(arguments[1]));
    }
    return wrap(from_object(arguments[0], dtype, here()));
  });
}

PyMethodDef functions[] = {
    {"_from_memory", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(module_from_memory)), METH_FASTCALL,
     nullptr},
    {"_from_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(module_from_dlpack)), METH_FASTCALL,
     nullptr},
    {"_tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(module_tensor)), METH_FASTCALL, nullptr},
    {}};

}  // namespace

void add_interop(PyObject* module) {
  if (PyModule_AddFunctions(module, functions) < 0) throw PythonError();
}

}  // namespace weft::python
