#include "step_reads.hpp"

#include <algorithm>
#include <cstring>

#include "../tensor/configuration.hpp"

namespace weft::python {

namespace {

// A step reaches few functions of the program's; what lies behind more is not looked at.
constexpr size_t most_met = 1000;
constexpr Py_ssize_t most_items = 4096;
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
  if (PyFunction_Check(v)) return mix(8, address(PyFunction_GET_CODE(v)));
  if (PyMethod_Check(v)) return mix(value_of(PyMethod_GET_SELF(v), depth), value_of(PyMethod_GET_FUNCTION(v), depth));
  if (depth < most_depth && (PyTuple_Check(v) || PyList_Check(v))) return value_of_items(v, depth);
  if (depth < most_depth && PyDict_Check(v)) return value_of_dict(v, depth);
  return mix(9, address(v));
}

PyObject* present(PyObject* owner, PyObject* key) {
  return PyCell_Check(owner) ? PyCell_GET(owner) : PyDict_GetItemWithError(owner, key);
}

bool is_of_weft(PyObject* globals) {
  PyObject* const name = PyDict_GetItemString(globals, "__name__");
  const char* const text = name != nullptr && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return text != nullptr && std::strncmp(text, "weft", 4) == 0 && (text[4] == '\0' || text[4] == '.');
}

Ref dict_of(PyObject* object) {
  PyObject* dict =
      PyModule_Check(object) ? Py_NewRef(PyModule_GetDict(object)) : PyObject_GenericGetDict(object, nullptr);
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

void StepReads::find_variables() {
  variables_.clear(), objects_.clear(), names_.clear(), met_.clear();
  meet(step_);
  for (size_t objects = 0, names = 0; objects != objects_.size() || names != names_.size();) {
    objects = objects_.size(), names = names_.size();
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

// Functions and objects behind a value; others have no variables of their own.
void StepReads::meet(PyObject* value) {
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
  if (type_name(value) == "functools.partial") {
    for (const char* part : {"func", "args", "keywords"}) meet(attribute(value, part).get());
  }
  const bool user_type =
      PyType_Check(value) && (reinterpret_cast<PyTypeObject*>(value)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
  const bool has_dict = !PyType_Check(value) && (Py_TYPE(value)->tp_dictoffset != 0 || PyModule_Check(value));
  if (user_type || has_dict) objects_.push_back(Ref::share(value));
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
  for (Py_ssize_t at = 0; named != nullptr && PyDict_Next(named, &at, &key, &value);) add_variable(named, key);
}

// Functions inside it are constants of the code.
void StepReads::meet_code(PyObject* code, PyObject* globals) {
  const Ref names = attribute(code, "co_names"), constants = attribute(code, "co_consts");
  for (PyObject* name : globals_of(code)) {
    if (PyDict_GetItemWithError(globals, name) != nullptr) add_variable(globals, name);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names.get(), i);
    if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants.get()); ++i) {
    PyObject* const constant = PyTuple_GET_ITEM(constants.get(), i);
    if (PyCode_Check(constant)) meet_code(constant, globals);
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
  for (PyObject* name : names) {
    const auto holds = [&](const Ref& dict) { return dict && PyDict_GetItemWithError(dict.get(), name) != nullptr; };
    const auto found = std::ranges::find_if(dicts, holds);
    if (found == dicts.end()) continue;
    if (found != dicts.begin() && dicts.front()) add_variable(dicts.front().get(), name);  // where one would hide it
    add_variable(found->get(), name);
  }
}

}  // namespace weft::python
