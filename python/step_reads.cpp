#include "step_reads.hpp"

#include <algorithm>
#include <cstring>

#include "../tensor/configuration.hpp"

namespace weft::python {

namespace {

// Limits of the search; docs/capture.md names the last two.
constexpr size_t most_met = 1000;
constexpr Py_ssize_t most_items = 65536, most_bytes = 1 << 20;
constexpr int most_depth = 4;

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

/// Types of Python's library whose objects hold values that no dictionary of attributes shows.
struct LibraryTypes {
  static PyObject* find(const char* module, const char* name) {
    return attribute(Ref(PyImport_ImportModule(module)).get(), name).release();
  }
  PyObject* partial = find("functools", "partial");
  PyObject* cached = find("functools", "cached_property");
  PyObject* wrapper = find("functools", "_lru_cache_wrapper");
  PyObject* deque = find("collections", "deque");
  PyObject* user_dict = find("collections", "UserDict");
  PyObject* user_list = find("collections", "UserList");
  PyObject* environment = find("os", "_Environ");
  PyObject* local = find("_thread", "_local");
  PyObject* random = find("random", "Random");
};
const LibraryTypes& types() {
  static const LibraryTypes found;
  return found;
}
bool is(PyObject* v, PyObject* type) {
  return PyType_IsSubtype(Py_TYPE(v), reinterpret_cast<PyTypeObject*>(type)) != 0;
}

uint64_t value_of(PyObject* v, int depth = 0);

uint64_t value_of_items(PyObject* sequence, int depth) {
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
  uint64_t sum = mix(3, static_cast<uint64_t>(n));
  for (Py_ssize_t i = 0; i < std::min(n, most_items); ++i) {
    sum = mix(sum, value_of(PySequence_Fast_GET_ITEM(sequence, i), depth + 1));
  }
  return sum;
}

uint64_t value_of_dict(PyObject* dict, int depth) {
  uint64_t sum = mix(4, static_cast<uint64_t>(PyDict_GET_SIZE(dict)));
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &key, &value))
    sum = mix(mix(sum, value_of(key, depth + 1)), value_of(value, depth + 1));
  return sum;
}

// Equal sets may be iterated in different orders.
uint64_t value_of_set(PyObject* set, int depth) {
  uint64_t sum = static_cast<uint64_t>(PySet_GET_SIZE(set));
  const Ref items(PySequence_List(set));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    sum += mix(10, value_of(PyList_GET_ITEM(items.get(), i), depth + 1));
  }
  return mix(10, sum);
}

uint64_t value_of_function(PyObject* function, int depth) {
  uint64_t sum = mix(8, address(PyFunction_GET_CODE(function)));
  if (PyObject* defaults = PyFunction_GET_DEFAULTS(function)) sum = mix(sum, value_of(defaults, depth + 1));
  if (PyObject* named = PyFunction_GET_KW_DEFAULTS(function)) sum = mix(sum, value_of(named, depth + 1));
  return sum;
}

uint64_t value_of_attributes(PyObject* object, std::initializer_list<const char*> names, int depth) {
  uint64_t sum = 11;
  for (const char* name : names) sum = mix(sum, value_of(attribute(object, name).get(), depth + 1));
  return sum;
}

// The bytes of an array or a number of NumPy, of array.array and of bytearray; the address of strided ones.
uint64_t value_of_buffer(PyObject* v) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(v, &buffer, PyBUF_SIMPLE) != 0) return PyErr_Clear(), address(v);
  uint64_t sum = mix(12, static_cast<uint64_t>(buffer.len));
  const auto* const bytes = static_cast<const char*>(buffer.buf);
  for (Py_ssize_t at = 0; at < std::min(buffer.len, most_bytes); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, static_cast<size_t>(std::min<Py_ssize_t>(8, buffer.len - at)));
    sum = mix(sum, word);
  }
  PyBuffer_Release(&buffer);
  return sum;
}

uint64_t value_of_context_variable(PyObject* v, int depth) {
  PyObject* value = nullptr;
  if (PyContextVar_Get(v, nullptr, &value) != 0 || value == nullptr) return PyErr_Clear(), 13;
  const Ref held(value);
  return mix(13, value_of(value, depth + 1));
}

uint64_t value_of_container(PyObject* v, int depth) {
  if (PyTuple_Check(v) || PyList_Check(v)) return value_of_items(v, depth);
  if (PyDict_Check(v)) return value_of_dict(v, depth);
  if (PyAnySet_Check(v)) return value_of_set(v, depth);
  if (is(v, types().deque)) return value_of_items(Ref(PySequence_Fast(v, "")).get(), depth);
  if (is(v, types().user_dict) || is(v, types().user_list)) return value_of_attributes(v, {"data"}, depth);
  if (is(v, types().environment)) return value_of_attributes(v, {"_data"}, depth);
  if (is(v, types().partial)) return value_of_attributes(v, {"func", "args", "keywords"}, depth);
  if (PyContextVar_CheckExact(v)) return value_of_context_variable(v, depth);
  return PyObject_CheckBuffer(v) ? value_of_buffer(v) : mix(9, address(v));
}

uint64_t value_of(PyObject* v, int depth) {
  if (v == nullptr) return 0;
  if (PyFloat_CheckExact(v)) return mix(1, bits(PyFloat_AS_DOUBLE(v)));
  if (PyLong_CheckExact(v) || PyUnicode_CheckExact(v) || PyBytes_CheckExact(v)) {
    int overflow = 1;
    const long long small = PyLong_CheckExact(v) ? PyLong_AsLongLongAndOverflow(v, &overflow) : 0;
    return mix(2, overflow == 0 ? static_cast<uint64_t>(small) : mix(5, static_cast<uint64_t>(PyObject_Hash(v))));
  }
  if (PyComplex_CheckExact(v)) return mix(mix(6, bits(PyComplex_RealAsDouble(v))), bits(PyComplex_ImagAsDouble(v)));
  if (is_tensor(v)) return mix(7, address(tensor_of(v).impl()));
  if (depth >= most_depth || PyType_Check(v) || PyModule_Check(v)) return mix(9, address(v));
  if (PyFunction_Check(v)) return value_of_function(v, depth);
  if (PyMethod_Check(v)) return mix(value_of(PyMethod_GET_SELF(v), depth), value_of(PyMethod_GET_FUNCTION(v), depth));
  return value_of_container(v, depth);
}

// The present value of a variable, borrowed: a cell, an entry of a dictionary, a slot of an object, or the owner
// itself.
PyObject* present(PyObject* owner, PyObject* key) {
  if (PyCell_Check(owner)) return PyCell_GET(owner);
  if (key == nullptr) return owner;
  if (PyDict_Check(owner)) return PyDict_GetItemWithError(owner, key);
  PyObject* const value = PyObject_GetAttr(owner, key);
  if (value == nullptr) PyErr_Clear();
  Py_XDECREF(value);  // the slot holds it
  return value;
}

// Python's and NumPy's generators of random numbers, whose draws are values of the host.
bool draws_on_the_host(PyObject* value) {
  if (PyModule_Check(value)) {
    const char* const name = PyModule_GetName(value);
    if (name == nullptr) PyErr_Clear();
    return name != nullptr && (std::strcmp(name, "random") == 0 || std::strcmp(name, "numpy.random") == 0);
  }
  return is(value, types().random) || type_name(value) == "numpy.random._generator.Generator";
}

bool is_of_weft(PyObject* globals) {
  PyObject* const name = PyDict_GetItemString(globals, "__name__");
  const char* const text = name != nullptr && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return text != nullptr && std::strncmp(text, "weft", 4) == 0 && (text[4] == '\0' || text[4] == '.');
}

Ref dict_of(PyObject* object) {
  PyObject* dict = PyModule_Check(object)      ? Py_NewRef(PyModule_GetDict(object))
                   : is(object, types().local) ? PyObject_GetAttrString(object, "__dict__")  // this thread's
                                               : PyObject_GenericGetDict(object, nullptr);
  if (dict == nullptr) {
    PyErr_Clear();
    return {};
  }
  return Ref(dict);
}

}  // namespace

const std::string& StepReads::settings() {
  const uint64_t configuration = detail::configuration();
  bool same = found_ && configuration == configuration_;
  for (const Variable& v : variables_) {
    same = same && (value_of(present(v.owner.get(), v.key.get())) == v.value || is_own(v));
  }
  if (!same) {
    find_variables();
    configuration_ = configuration;
  }
  PyErr_Clear();
  return settings_;
}

void StepReads::note_own_changes() {
  for (const Variable& v : variables_) {
    if (value_of(present(v.owner.get(), v.key.get())) == v.value) continue;
    if (!is_own(v)) own_.emplace_back(Ref::share(v.owner.get()), v.key ? Ref::share(v.key.get()) : Ref());
    found_ = false;
  }
  PyErr_Clear();
}

bool StepReads::is_own(const Variable& v) const {
  return std::ranges::any_of(
      own_, [&](const auto& o) { return o.first.get() == v.owner.get() && o.second.get() == v.key.get(); });
}

int StepReads::traverse(visitproc visit, void* arg) const {
  for (const Variable& v : variables_) {
    Py_VISIT(v.owner.get());
    Py_VISIT(v.key.get());
  }
  for (const auto& [owner, key] : own_) {
    Py_VISIT(owner.get());
    Py_VISIT(key.get());
  }
  for (const Globals& g : globals_) Py_VISIT(g.code.get());
  for (const Ref& object : objects_) Py_VISIT(object.get());
  return 0;
}

void StepReads::clear() {
  // The lists are empty before an object is dropped, whose end may run Python code.
  const auto variables = std::exchange(variables_, {});
  const auto own = std::exchange(own_, {});
  const auto globals = std::exchange(globals_, {});
  const auto objects = std::exchange(objects_, {});
  names_.clear(), literals_.clear(), met_.clear();
  found_ = false;
}

void StepReads::find_variables() {
  variables_.clear(), objects_.clear(), names_.clear(), literals_.clear(), met_.clear();
  add_variable(step_, nullptr);
  for (size_t objects = 0, names = 0; objects != objects_.size() || names != names_.size() + literals_.size();) {
    objects = objects_.size(), names = names_.size() + literals_.size();
    for (size_t i = 0; i < objects; ++i) meet_attributes(objects_[i].get());
  }
  settings_.clear();
  for (const Variable& v : variables_) {
    if (is_own(v)) continue;
    const PyObject* const key = v.key.get();
    settings_.append(reinterpret_cast<const char*>(&key), sizeof(key));
    settings_.append(reinterpret_cast<const char*>(&v.value), sizeof(v.value));
  }
  found_ = true;
}

void StepReads::add_variable(PyObject* owner, PyObject* key) {
  for (const Variable& v : variables_) {
    if (v.owner.get() == owner && v.key.get() == key) return;
  }
  PyObject* const value = present(owner, key);
  variables_.push_back({Ref::share(owner), key != nullptr ? Ref::share(key) : Ref(), value_of(value)});
  if (value != nullptr) meet(value);
}

void StepReads::warn_of_draws(PyObject* value) {
  if (warned_ || !draws_on_the_host(value)) return;
  warned_ = true;
  const char* const text =
      "a captured step names a generator of Python or NumPy: the numbers that it draws are recorded once, and each "
      "replay "
      "uses them again; draw them with weft, or pass them as tensors";
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) != 0) throw PythonError();
}

// Functions behind descriptors and wrappers.
Ref StepReads::function_behind(PyObject* value) {
  for (const auto& [type, name] : {std::pair{reinterpret_cast<PyObject*>(&PyClassMethod_Type), "__func__"},
                                   {reinterpret_cast<PyObject*>(&PyStaticMethod_Type), "__func__"},
                                   {reinterpret_cast<PyObject*>(&PyProperty_Type), "fget"},
                                   {types().cached, "func"},
                                   {types().wrapper, "__wrapped__"}}) {
    if (is(value, type)) return attribute(value, name);
  }
  return {};
}

// Functions and objects behind a value; others have no variables of their own.
void StepReads::meet(PyObject* value) {
  if (const Ref function = function_behind(value)) return meet(function.get());
  warn_of_draws(value);
  if (PyMethod_Check(value)) {
    meet(PyMethod_GET_SELF(value));
    value = PyMethod_GET_FUNCTION(value);
  }
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    const Ref items(PySequence_Fast(value, ""));
    const Py_ssize_t n = std::min<Py_ssize_t>(PySequence_Fast_GET_SIZE(items.get()), 64);
    for (Py_ssize_t i = 0; i < n; ++i) meet(PySequence_Fast_GET_ITEM(items.get(), i));
    return;
  }
  if (is_tensor(value) || met_.size() > most_met || !met_.insert(value).second) return;
  if (PyFunction_Check(value)) return meet_function(value);
  if (is(value, types().partial)) {
    for (const char* part : {"func", "args"}) meet(attribute(value, part).get());
    const Ref named = attribute(value, "keywords");
    meet(Ref(PyDict_Values(named.get())).get());
  }
  if (PyContextVar_CheckExact(value)) {
    PyObject* now = nullptr;
    if (PyContextVar_Get(value, nullptr, &now) != 0) PyErr_Clear();
    if (now != nullptr) meet(Ref(now).get());
  }
  const auto* const type = PyType_Check(value) ? reinterpret_cast<PyTypeObject*>(value) : Py_TYPE(value);
  const bool is_of_user = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
  const bool has_dict = !PyType_Check(value) && (type->tp_dictoffset != 0 || PyModule_Check(value));
  if (is_of_user || has_dict || is(value, types().local)) objects_.push_back(Ref::share(value));
}

void StepReads::meet_function(PyObject* function) {
  PyObject* const globals = PyFunction_GET_GLOBALS(function);
  if (function != step_ && is_of_weft(globals)) return;
  meet_code(PyFunction_GET_CODE(function), globals);
  if (PyObject* cells = PyFunction_GET_CLOSURE(function)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cells); ++i) add_variable(PyTuple_GET_ITEM(cells, i), nullptr);
  }
  if (PyObject* defaults = PyFunction_GET_DEFAULTS(function)) meet(defaults);
  PyObject* const named = PyFunction_GET_KW_DEFAULTS(function);
  PyObject *key, *value;
  for (Py_ssize_t at = 0; named != nullptr && PyDict_Next(named, &at, &key, &value);) meet(value);
}

// Functions inside it are constants of the code.
void StepReads::meet_code(PyObject* code, PyObject* globals) {
  const Ref names = attribute(code, "co_names"), constants = attribute(code, "co_consts");
  for (PyObject* name : globals_of(code)) {
    if (PyDict_GetItemWithError(globals, name) != nullptr) add_variable(globals, name);
  }
  bool reads_by_name = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names.get(), i);
    if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
    for (const char* reader : {"getattr", "hasattr", "attrgetter", "vars", "__dict__"}) {
      reads_by_name = reads_by_name || PyUnicode_CompareWithASCIIString(name, reader) == 0;
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants.get()); ++i) {
    PyObject* const constant = PyTuple_GET_ITEM(constants.get(), i);
    if (PyCode_Check(constant)) meet_code(constant, globals);
    const bool is_name = reads_by_name && PyUnicode_Check(constant) && PyUnicode_IsIdentifier(constant) == 1;
    if (is_name && std::ranges::find(literals_, constant) == literals_.end()) literals_.push_back(constant);
  }
}

const std::vector<PyObject*>& StepReads::globals_of(PyObject* code) {
  const auto known = std::ranges::find_if(globals_, [&](const Globals& g) { return g.code.get() == code; });
  if (known != globals_.end()) return known->names;
  Globals& fresh = globals_.emplace_back(Globals{Ref::share(code), {}});
  const Ref dis(PyImport_ImportModule("dis"));
  const Ref instructions(PyObject_CallMethod(dis.get(), "get_instructions", "O", code));
  while (PyObject* next = PyIter_Next(instructions.get())) {
    const Ref instruction(next), operation = attribute(next, "opname"), name = attribute(next, "argval");
    const char* const text = PyUnicode_AsUTF8(operation.get());
    const bool global = std::strcmp(text, "LOAD_GLOBAL") == 0 || std::strcmp(text, "LOAD_NAME") == 0;
    if (global && std::ranges::find(fresh.names, name.get()) == fresh.names.end()) fresh.names.push_back(name.get());
  }
  return fresh.names;  // the code owns them
}

// The children of a module, since its forward calls them.
void StepReads::meet_children(PyObject* object) {
  PyObject* const children = PyObject_GetAttrString(object, "_modules");
  if (children == nullptr || !PyDict_Check(children)) return PyErr_Clear(), Py_XDECREF(children);
  const Ref held(children);
  PyObject *name, *child;
  for (Py_ssize_t at = 0; PyDict_Next(children, &at, &name, &child);) meet(child);
}

void StepReads::meet_attributes(PyObject* object) {
  std::vector<Ref> dicts;
  if (!PyType_Check(object)) dicts.push_back(dict_of(object));
  if (!dicts.empty() && dicts[0] && PyDict_GetItemString(dicts[0].get(), "_state") != nullptr) meet_children(object);
  auto* const type = PyType_Check(object) ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object);
  const Py_ssize_t bases = PyModule_Check(object) ? 0 : PyTuple_GET_SIZE(type->tp_mro);
  for (Py_ssize_t i = 0; i < bases; ++i) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) dicts.push_back(Ref::share(base->tp_dict));
  }
  static PyObject* const called[] = {PyUnicode_InternFromString("forward"), PyUnicode_InternFromString("__call__")};
  std::vector<PyObject*> names(std::begin(called), std::end(called));
  names.insert(names.end(), names_.begin(), names_.end());
  names.insert(names.end(), literals_.begin(), literals_.end());
  for (size_t i = 0; i < names.size(); ++i) {
    PyObject* const name = names[i];
    const auto holds = [&](const Ref& dict) { return dict && PyDict_GetItemWithError(dict.get(), name) != nullptr; };
    const auto found = std::ranges::find_if(dicts, holds);
    const bool is_literal = i >= names.size() - literals_.size();
    if (found == dicts.end()) {
      // getattr with a default, and hasattr, read that it is absent.
      if (is_literal && !dicts.empty() && dicts.front()) add_variable(dicts.front().get(), name);
      continue;
    }
    if (found != dicts.begin() && dicts.front()) add_variable(dicts.front().get(), name);  // one that would hide it
    PyObject* const entry = PyDict_GetItemWithError(found->get(), name);
    const bool is_slot = Py_TYPE(entry) == &PyMemberDescr_Type && !PyType_Check(object);
    if (is_slot || is(object, types().local)) add_variable(object, name);  // read anew in each thread
    else add_variable(found->get(), name);
  }
}

}  // namespace weft::python
