#include "host_values.hpp"

#include <algorithm>
#include <cstring>

namespace weft::python {

namespace {

// Limits of one comparison; docs/capture.md names them.
constexpr Py_ssize_t most_items = 65536, most_bytes = 1 << 20;
constexpr int most_depth = 32, most_values = 131072;

/// Types of Python's library whose objects hold values that no dictionary of attributes shows.
struct LibraryTypes {
  static PyObject* find(const char* module, const char* name) {
    return attribute(Ref(PyImport_ImportModule(module)).get(), name).release();
  }
  PyObject* partial = find("functools", "partial");
  PyObject* cached = find("functools", "cached_property");
  PyObject* wrapper = find("functools", "_lru_cache_wrapper");
  PyObject* deque = find("collections", "deque");
  PyObject* chain = find("collections", "ChainMap");
  PyObject* user_dict = find("collections", "UserDict");
  PyObject* user_list = find("collections", "UserList");
  PyObject* environment = find("os", "_Environ");
  PyObject* local = find("_thread", "_local");
  PyObject* random = find("random", "Random");
  PyObject* file = find("io", "IOBase");
};
const LibraryTypes& types() {
  static const LibraryTypes found;
  return found;
}
bool is(PyObject* v, PyObject* type) {
  return PyType_IsSubtype(Py_TYPE(v), reinterpret_cast<PyTypeObject*>(type)) != 0;
}

/// Groups of objects by how they are compared.
enum class Kind : uint8_t {
  fixed,
  tensor,
  function,
  method,
  sequence,
  dict,
  set,
  proxy,
  deque,
  partial,
  holder,
  context,
  weak,
  buffer
};

// The container inside an object of Python's library, by the attribute that holds it.
const char* holder_of(PyObject* v) {
  if (is(v, types().user_dict) || is(v, types().user_list)) return "data";
  if (is(v, types().chain)) return "maps";
  return is(v, types().environment) ? "_data" : nullptr;
}

Kind kind_of(PyObject* v) {
  if (is_plain(v) || PyType_Check(v) || PyModule_Check(v)) return Kind::fixed;
  if (is_tensor(v)) return Kind::tensor;
  if (PyFunction_Check(v)) return Kind::function;
  if (PyMethod_Check(v)) return Kind::method;
  if (PyTuple_Check(v) || PyList_Check(v)) return Kind::sequence;
  if (PyDict_Check(v)) return Kind::dict;
  if (PyAnySet_Check(v)) return Kind::set;
  if (Py_TYPE(v) == &PyDictProxy_Type) return Kind::proxy;
  if (is(v, types().deque)) return Kind::deque;
  if (is(v, types().partial)) return Kind::partial;
  if (holder_of(v) != nullptr) return Kind::holder;
  if (PyContextVar_CheckExact(v)) return Kind::context;
  if (PyWeakref_Check(v)) return Kind::weak;
  return PyObject_CheckBuffer(v) ? Kind::buffer : Kind::fixed;
}

uint64_t mix(uint64_t a, uint64_t b) {
  a = (a ^ b) * 0x9e3779b97f4a7c15;
  return a ^ a >> 29;
}
uint64_t bits(double x) {
  uint64_t out;
  std::memcpy(&out, &x, sizeof(x));
  return out;
}
uint64_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

uint64_t hash_bytes(uint64_t sum, const char* bytes, Py_ssize_t size) {
  for (Py_ssize_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, static_cast<size_t>(std::min<Py_ssize_t>(8, size - i)));
    sum = mix(sum, word);
  }
  return sum;
}

// The elements of a strided array in the order of its indices, up to most_bytes.
uint64_t hash_elements(uint64_t sum, const Py_buffer& array) {
  std::vector<Py_ssize_t> index(static_cast<size_t>(array.ndim), 0);
  const auto* element = static_cast<const char*>(array.buf);
  for (Py_ssize_t done = 0; done < std::min(array.len, most_bytes); done += array.itemsize) {
    sum = hash_bytes(sum, element, array.itemsize);
    for (int d = array.ndim - 1; d >= 0; --d) {
      element += array.strides[d];
      if (++index[static_cast<size_t>(d)] < array.shape[d]) break;
      element -= array.strides[d] * array.shape[d];
      index[static_cast<size_t>(d)] = 0;
    }
  }
  return sum;
}

/// Hashes one value; bounds depth and number of the values inside it.
class Hash {
 public:
  uint64_t of(PyObject* v) {
    if (v == nullptr) return 0;
    if (PyFloat_CheckExact(v)) return mix(1, bits(PyFloat_AS_DOUBLE(v)));
    if (PyLong_CheckExact(v)) return of_integer(v);
    if (PyUnicode_CheckExact(v) || PyBytes_CheckExact(v)) return mix(5, static_cast<uint64_t>(PyObject_Hash(v)));
    if (PyComplex_CheckExact(v)) return mix(mix(6, bits(PyComplex_RealAsDouble(v))), bits(PyComplex_ImagAsDouble(v)));
    const Kind kind = kind_of(v);
    if (kind == Kind::tensor) return mix(7, address(tensor_of(v).impl()));
    if (kind == Kind::fixed || depth_ == most_depth || ++values_ > most_values) return mix(9, address(v));
    ++depth_;
    const uint64_t sum = of_parts(v, kind);
    --depth_;
    return sum;
  }

 private:
  static uint64_t of_integer(PyObject* v) {
    int overflow = 0;
    const long long small = PyLong_AsLongLongAndOverflow(v, &overflow);
    return mix(2, overflow == 0 ? static_cast<uint64_t>(small) : mix(5, static_cast<uint64_t>(PyObject_Hash(v))));
  }

  uint64_t of_parts(PyObject* v, Kind kind) {
    switch (kind) {
      case Kind::function:
        return of_function(v);
      case Kind::method:
        return mix(of(PyMethod_GET_SELF(v)), of(PyMethod_GET_FUNCTION(v)));
      case Kind::sequence:
        return of_items(v);
      case Kind::dict:
        return of_dict(v);
      case Kind::set:
        return of_set(v);
      case Kind::proxy:
        return of_items(Ref(PyMapping_Items(v)).get());
      case Kind::deque:
        return of_items(Ref(PySequence_Fast(v, "")).get());
      case Kind::partial:
        return of_attributes(v, {"func", "args", "keywords"});
      case Kind::holder:
        return of_attributes(v, {holder_of(v)});
      case Kind::context:
        return of_context_variable(v);
      case Kind::weak:
        return mix(14, address(PyWeakref_GetObject(v)));
      case Kind::buffer:
        return of_buffer(v);
      case Kind::fixed:
      case Kind::tensor:
        break;
    }
    return mix(9, address(v));
  }

  uint64_t of_items(PyObject* sequence) {
    uint64_t sum = mix(3, static_cast<uint64_t>(PySequence_Fast_GET_SIZE(sequence)));
    for (Py_ssize_t i = 0; i < std::min(PySequence_Fast_GET_SIZE(sequence), most_items); ++i) {
      sum = mix(sum, of(PySequence_Fast_GET_ITEM(sequence, i)));
    }
    return sum;
  }

  uint64_t of_dict(PyObject* dict) {
    uint64_t sum = mix(4, static_cast<uint64_t>(PyDict_GET_SIZE(dict)));
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(dict, &i, &key, &value);) sum = mix(mix(sum, of(key)), of(value));
    return sum;
  }

  // Equal sets may be iterated in different orders.
  uint64_t of_set(PyObject* set) {
    uint64_t sum = static_cast<uint64_t>(PySet_GET_SIZE(set));
    const Ref items(PySequence_List(set));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) sum += mix(10, of(PyList_GET_ITEM(items.get(), i)));
    return mix(10, sum);
  }

  uint64_t of_function(PyObject* function) {
    uint64_t sum = mix(8, address(PyFunction_GET_CODE(function)));
    if (PyObject* defaults = PyFunction_GET_DEFAULTS(function)) sum = mix(sum, of(defaults));
    if (PyObject* named = PyFunction_GET_KW_DEFAULTS(function)) sum = mix(sum, of(named));
    return sum;
  }

  uint64_t of_attributes(PyObject* object, std::initializer_list<const char*> names) {
    uint64_t sum = 11;
    for (const char* name : names) sum = mix(sum, of(attribute(object, name).get()));
    return sum;
  }

  uint64_t of_context_variable(PyObject* v) {
    PyObject* value = nullptr;
    if (PyContextVar_Get(v, nullptr, &value) != 0 || value == nullptr) return PyErr_Clear(), 13;
    const Ref held(value);
    return mix(13, of(value));
  }

  // An array or a number of NumPy, array.array, bytearray or memoryview.
  static uint64_t of_buffer(PyObject* v) {
    Py_buffer array;
    if (PyObject_GetBuffer(v, &array, PyBUF_FULL_RO) != 0) return PyErr_Clear(), mix(9, address(v));
    uint64_t sum = mix(mix(12, static_cast<uint64_t>(array.len)), static_cast<uint64_t>(array.itemsize));
    if (array.format != nullptr) sum = hash_bytes(sum, array.format, static_cast<Py_ssize_t>(strlen(array.format)));
    for (int d = 0; d < array.ndim; ++d) sum = mix(sum, static_cast<uint64_t>(array.shape[d]));
    if (PyBuffer_IsContiguous(&array, 'C') != 0) {
      sum = hash_bytes(sum, static_cast<const char*>(array.buf), std::min(array.len, most_bytes));
    } else {
      sum = array.suboffsets != nullptr ? mix(sum, address(array.buf)) : hash_elements(sum, array);
    }
    PyBuffer_Release(&array);
    return sum;
  }

  int depth_ = 0, values_ = 0;
};

std::vector<Ref> shared(std::initializer_list<PyObject*> objects) {
  std::vector<Ref> out;
  for (PyObject* object : objects) {
    if (object != nullptr) out.push_back(Ref::share(object));
  }
  return out;
}

std::vector<Ref> items_of(PyObject* iterable) {
  const Ref items(PySequence_Fast(iterable, ""));
  const Py_ssize_t n = std::min(PySequence_Fast_GET_SIZE(items.get()), most_items);
  std::vector<Ref> out;
  out.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) out.push_back(Ref::share(PySequence_Fast_GET_ITEM(items.get(), i)));
  return out;
}

}  // namespace

uint64_t value_of(PyObject* value) { return Hash().of(value); }

bool is_plain(PyObject* v) {
  return v == Py_None || PyLong_Check(v) || PyFloat_CheckExact(v) || PyUnicode_CheckExact(v) || PyBytes_CheckExact(v) ||
         PyComplex_CheckExact(v);
}

bool has_fixed_value(PyObject* v) { return kind_of(v) == Kind::fixed; }

std::vector<Ref> parts_of(PyObject* v) {
  switch (kind_of(v)) {
    case Kind::sequence:
    case Kind::set:
    case Kind::deque:
      return items_of(v);
    case Kind::dict:
      return items_of(Ref(PyDict_Values(v)).get());
    case Kind::proxy:
      return items_of(Ref(PyMapping_Values(v)).get());
    case Kind::weak:
      return shared({PyWeakref_GetObject(v)});
    case Kind::partial:
      return shared({attribute(v, "func").get(), attribute(v, "args").get(), attribute(v, "keywords").get()});
    case Kind::holder:
      if (is(v, types().environment)) return {};
      return shared({attribute(v, holder_of(v)).get()});
    case Kind::context: {
      PyObject* now = nullptr;
      if (PyContextVar_Get(v, nullptr, &now) != 0) PyErr_Clear();
      return now != nullptr ? shared({Ref(now).get()}) : std::vector<Ref>();
    }
    default:
      return {};
  }
}

Ref function_behind(PyObject* value) {
  for (const auto& [type, name] : {std::pair{reinterpret_cast<PyObject*>(&PyClassMethod_Type), "__func__"},
                                   {reinterpret_cast<PyObject*>(&PyStaticMethod_Type), "__func__"},
                                   {reinterpret_cast<PyObject*>(&PyProperty_Type), "fget"},
                                   {types().cached, "func"},
                                   {types().wrapper, "__wrapped__"}}) {
    if (is(value, type)) return attribute(value, name);
  }
  return {};
}

bool is_thread_local(PyObject* value) { return is(value, types().local); }

bool moves_by_reading(PyObject* value) {
  if (PyModule_Check(value)) {
    const char* const name = PyModule_GetName(value);
    if (name == nullptr) PyErr_Clear();
    return name != nullptr && (std::strcmp(name, "random") == 0 || std::strcmp(name, "numpy.random") == 0);
  }
  // Iterators of classes written in Python hold their place in attributes, which are variables.
  const bool of_user = (Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
                       type_name(value).rfind("itertools.", 0) == std::string::npos;
  const bool iterates = PyIter_Check(value) != 0 && !of_user && !is_tensor(value) && !is(value, types().file);
  return iterates || is(value, types().random) || type_name(value) == "numpy.random._generator.Generator";
}

}  // namespace weft::python
