// weft.dtype: one object for each dtype, compared by identity. weft.device.
#include "dtypes.hpp"

#include <structmember.h>

namespace weft::python {

PyTypeObject* dtype_type = nullptr;
PyObject* dtype_objects[dtype_count];
bool pytorch_forms = false;

namespace {

PyTypeObject* device_type = nullptr;
struct DeviceObject {
  PyObject ob_base;
  Device device;
};

DType dtype_of_object(PyObject* self) { return reinterpret_cast<DTypeObject*>(self)->dtype; }
Device device_of(PyObject* self) { return reinterpret_cast<DeviceObject*>(self)->device; }

PyObject* dtype_repr(PyObject* self) {
  return PyUnicode_FromFormat("%s.%s", pytorch_forms ? "torch" : "weft", name(dtype_of_object(self)));
}
PyObject* dtype_reduce(PyObject* self, PyObject*) { return PyUnicode_FromString(name(dtype_of_object(self))); }

PyObject* refuse(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "weft.dtype: there is one object for each dtype; use weft.float32 and its like");
  return nullptr;
}

using Getter = PyObject* (*)(PyObject*, void*);
template <auto f>
constexpr Getter dtype_getter = [](PyObject* self, void*) -> PyObject* { return f(dtype_of_object(self)); };

PyGetSetDef dtype_getters[] = {
    {"itemsize", dtype_getter<[](DType t) { return PyLong_FromLongLong(itemsize(t)); }>, nullptr,
     "Bytes of one element.", nullptr},
    {"is_floating_point", dtype_getter<[](DType t) { return PyBool_FromLong(is_floating(t)); }>, nullptr,
     "True for floats of any size.", nullptr},
    {"is_complex", dtype_getter<[](DType t) { return PyBool_FromLong(is_complex(t)); }>, nullptr,
     "True for complex numbers.", nullptr},
    {"is_signed", dtype_getter<[](DType t) { return PyBool_FromLong(is_signed(t)); }>, nullptr,
     "True where negative numbers can be held.", nullptr},
    {"name", dtype_getter<[](DType t) { return PyUnicode_FromString(name(t)); }>, nullptr, "\"float32\" and its like.",
     nullptr},
    {}};
PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, nullptr}, {}};
PyType_Slot dtype_slots[] = {{Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
                             {Py_tp_new, reinterpret_cast<void*>(refuse)},
                             {Py_tp_getset, dtype_getters},
                             {Py_tp_methods, dtype_methods},
                             {Py_tp_doc, const_cast<char*>("An element type: weft.float32, weft.int64, weft.bool, …")},
                             {}};
PyType_Spec dtype_spec = {"weft.dtype", sizeof(DTypeObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                          dtype_slots};

PyObject* device_new(PyTypeObject*, PyObject* arguments, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    PyObject* device = nullptr;
    int index = -1;
    static const char* names[] = {"device", "index", nullptr};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|i:device", const_cast<char**>(names), &device, &index)) {
      throw PythonError();
    }
    auto made = to_device(device);
    if (!made) throw_type_error("device(): argument 'device': expected a str or device, got " + type_name(device));
    if (index > 255 || index < -1) throw_error(PyExc_ValueError, "device(): argument 'index' is out of range");
    if (index >= 0) made->index = static_cast<uint8_t>(index);
    return from_device(*made);
  });
}
PyObject* device_text(PyObject* self) { return PyUnicode_FromString(device_of(self).name().c_str()); }
PyObject* device_repr(PyObject* self) {
  const Device d = device_of(self);
  const std::string full = d.name();
  const auto colon = full.find(':');
  if (colon == std::string::npos) return PyUnicode_FromFormat("device(type='%s')", full.c_str());
  return PyUnicode_FromFormat("device(type='%s', index=%d)", full.substr(0, colon).c_str(), d.index);
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(b) != device_type) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((device_of(a) == device_of(b)) == (op == Py_EQ));
}
Py_hash_t device_hash(PyObject* self) {
  const Device d = device_of(self);
  return (static_cast<int>(d.type) << 8) + d.index;
}
PyObject* device_reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(s)", device_type, device_of(self).name().c_str());
}
PyGetSetDef device_getters[] = {{"type",
                                 [](PyObject* self, void*) -> PyObject* {
                                   const std::string full = device_of(self).name();
                                   return PyUnicode_FromString(full.substr(0, full.find(':')).c_str());
                                 },
                                 nullptr, "\"cpu\", \"cuda\", \"hpu\" or \"meta\".", nullptr},
                                {"index",
                                 [](PyObject* self, void*) -> PyObject* {
                                   const Device d = device_of(self);
                                   return d.is_cpu() || d.type == DeviceType::meta ? Py_NewRef(Py_None)
                                                                                   : PyLong_FromLong(d.index);
                                 },
                                 nullptr, "The number among devices of this type; None for the CPU.", nullptr},
                                {}};
PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, nullptr}, {}};
PyType_Slot device_slots[] = {{Py_tp_new, reinterpret_cast<void*>(device_new)},
                              {Py_tp_repr, reinterpret_cast<void*>(device_repr)},
                              {Py_tp_str, reinterpret_cast<void*>(device_text)},
                              {Py_tp_richcompare, reinterpret_cast<void*>(device_compare)},
                              {Py_tp_hash, reinterpret_cast<void*>(device_hash)},
                              {Py_tp_getset, device_getters},
                              {Py_tp_methods, device_methods},
                              {Py_tp_doc, const_cast<char*>("device(device, index=None)\n--\n\nWhere a tensor lives.")},
                              {}};
PyType_Spec device_spec = {"weft.device", sizeof(DeviceObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           device_slots};

void add(PyObject* module, const char* as, PyObject* object) {
  if (PyModule_AddObjectRef(module, as, object) < 0) throw PythonError();
}

}  // namespace

std::optional<DType> to_dtype(PyObject* object) {
  if (Py_TYPE(object) == dtype_type) return dtype_of_object(object);
  if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::f64;
  if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::i64;
  if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::boolean;
  if (object == reinterpret_cast<PyObject*>(&PyComplex_Type)) return DType::c128;
  return {};
}

std::optional<Device> to_device(PyObject* object) {
  if (Py_TYPE(object) == device_type) return device_of(object);
  if (PyUnicode_Check(object)) return Device(std::string_view(text_of(object)), here());
  return {};
}

PyObject* from_device(Device device) {
  auto* self = reinterpret_cast<DeviceObject*>(device_type->tp_alloc(device_type, 0));
  if (self != nullptr) self->device = device;
  return reinterpret_cast<PyObject*>(self);
}

void add_dtypes(PyObject* module) {
  dtype_type = reinterpret_cast<PyTypeObject*>(Ref(PyType_FromSpec(&dtype_spec)).release());
  device_type = reinterpret_cast<PyTypeObject*>(Ref(PyType_FromSpec(&device_spec)).release());
  add(module, "dtype", reinterpret_cast<PyObject*>(dtype_type));
  add(module, "device", reinterpret_cast<PyObject*>(device_type));
  for (int i = 0; i < dtype_count; ++i) {
    dtype_objects[i] = Ref(dtype_type->tp_alloc(dtype_type, 0)).release();
    reinterpret_cast<DTypeObject*>(dtype_objects[i])->dtype = static_cast<DType>(i);
    add(module, name(static_cast<DType>(i)), dtype_objects[i]);
  }
  const std::pair<const char*, DType> others[] = {
      {"half", DType::f16}, {"float", DType::f32}, {"double", DType::f64}, {"short", DType::i16},
      {"int", DType::i32},  {"long", DType::i64},  {"cfloat", DType::c64}, {"cdouble", DType::c128}};
  for (const auto& [as, dtype] : others) add(module, as, dtype_objects[static_cast<int>(dtype)]);
}

}  // namespace weft::python
