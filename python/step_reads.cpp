#include "step_reads.hpp"

#include <algorithm>
#include <cstring>

#include "../tensor/configuration.hpp"
#include "host_values.hpp"

namespace weft::python {

namespace {

constexpr size_t most_met = 65536;

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

bool is_of_weft(PyObject* globals) {
  PyObject* const name = PyDict_GetItemString(globals, "__name__");
  const char* const text = name != nullptr && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return text != nullptr && std::strncmp(text, "weft", 4) == 0 && (text[4] == '\0' || text[4] == '.');
}

Ref dict_of(PyObject* object) {
  PyObject* dict = PyModule_Check(object)    ? Py_NewRef(PyModule_GetDict(object))
                   : is_thread_local(object) ? PyObject_GetAttrString(object, "__dict__")  // this thread's
                                             : PyObject_GenericGetDict(object, nullptr);
  if (dict == nullptr) {
    PyErr_Clear();
    return {};
  }
  return Ref(dict);
}

// Dictionaries that hold an object's attributes, in the order of their lookup: its own, then those of its classes.
std::vector<Ref> dicts_of(PyObject* object) {
  std::vector<Ref> dicts;
  if (!PyType_Check(object)) dicts.push_back(dict_of(object));
  auto* const type = PyType_Check(object) ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object);
  const Py_ssize_t bases = PyModule_Check(object) ? 0 : PyTuple_GET_SIZE(type->tp_mro);
  for (Py_ssize_t i = 0; i < bases; ++i) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) dicts.push_back(Ref::share(base->tp_dict));
  }
  return dicts;
}

}  // namespace

const std::string& StepReads::settings() {
  const uint64_t configuration = detail::configuration();
  bool same = found_ && configuration == configuration_;
  for (const Variable& v : variables_) same = same && (is_unchanged(v) || is_own(v));
  if (!same) {
    find_variables();
    configuration_ = configuration;
  }
  PyErr_Clear();
  return settings_;
}

void StepReads::note_own_changes() {
  for (const Variable& v : variables_) {
    if (is_unchanged(v)) continue;
    if (!is_own(v)) own_.emplace_back(Ref::share(v.owner.get()), v.key ? Ref::share(v.key.get()) : Ref());
    found_ = false;
  }
  PyErr_Clear();
}

bool StepReads::is_unchanged(const Variable& v) {
  PyObject* const now = present(v.owner.get(), v.key.get());
  return (now != nullptr && now == v.object.get()) || value_of(now) == v.hash;
}

bool StepReads::is_own(const Variable& v) const {
  return std::ranges::any_of(
      own_, [&](const auto& o) { return o.first.get() == v.owner.get() && o.second.get() == v.key.get(); });
}

int StepReads::traverse(visitproc visit, void* arg) const {
  for (const Variable& v : variables_) {
    Py_VISIT(v.owner.get());
    Py_VISIT(v.key.get());
    Py_VISIT(v.object.get());
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
  names_.clear(), literals_.clear(), met_.clear(), added_.clear();
  found_ = false;
}

void StepReads::find_variables() {
  variables_.clear(), objects_.clear(), names_.clear(), literals_.clear(), met_.clear(), added_.clear();
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
    settings_.append(reinterpret_cast<const char*>(&v.hash), sizeof(v.hash));
  }
  found_ = true;
}

void StepReads::add_variable(PyObject* owner, PyObject* key) {
  if (!added_.insert({owner, key}).second) return;
  PyObject* const value = present(owner, key);
  const Ref held = value != nullptr ? Ref::share(value) : Ref();
  variables_.push_back({Ref::share(owner), key != nullptr ? Ref::share(key) : Ref(),
                        value != nullptr && has_fixed_value(value) ? Ref::share(value) : Ref(), value_of(value)});
  if (value != nullptr) meet(value);
}

void StepReads::warn_of_draws(PyObject* value) {
  if (warned_ || !moves_by_reading(value)) return;
  warned_ = true;
  const char* const text =
      "a captured step names a random generator or an iterator of Python or NumPy: the values that it takes are "
      "recorded "
      "once, and each replay uses them again; draw them with weft, or pass them as tensors";
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) != 0) throw PythonError();
}

// Functions and objects behind a value; others have no variables of their own.
void StepReads::meet(PyObject* value) {
  if (is_plain(value) || is_tensor(value)) return;
  if (const Ref function = function_behind(value)) return meet(function.get());
  warn_of_draws(value);
  if (PyMethod_Check(value)) {
    meet(PyMethod_GET_SELF(value));
    value = PyMethod_GET_FUNCTION(value);
  }
  if (met_.size() > most_met || !met_.insert(value).second) return;
  if (PyFunction_Check(value)) return meet_function(value);
  for (const Ref& part : parts_of(value)) meet(part.get());
  const auto* const type = PyType_Check(value) ? reinterpret_cast<PyTypeObject*>(value) : Py_TYPE(value);
  const bool is_of_user = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
  const bool has_dict = !PyType_Check(value) && (type->tp_dictoffset != 0 || PyModule_Check(value));
  if (is_of_user || has_dict || is_thread_local(value)) objects_.push_back(Ref::share(value));
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
  objects_.push_back(Ref::share(function));
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

// Python calls them without their names in the code: obj[i], len(obj), obj.absent, a descriptor's __get__.
void StepReads::meet_special_methods(PyObject* object, const std::vector<Ref>& dicts) {
  static const char* const unread[] = {"__new__",           "__init__",   "__del__",       "__repr__",
                                       "__init_subclass__", "__reduce__", "__reduce_ex__", "__getstate__",
                                       "__setstate__",      "__dir__",    "__deepcopy__"};
  if (PyFunction_Check(object) || PyModule_Check(object)) return;
  for (const Ref& dict : dicts) {
    if (!dict) continue;
    PyObject *name, *value;
    for (Py_ssize_t i = 0; PyDict_Next(dict.get(), &i, &name, &value);) {
      const char* const text = PyFunction_Check(value) && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
      if (text == nullptr || text[0] != '_' || text[1] != '_' || is_of_weft(PyFunction_GET_GLOBALS(value))) continue;
      const bool makes = std::ranges::any_of(unread, [&](const char* n) { return std::strcmp(text, n) == 0; });
      if (!makes || PyType_Check(object)) add_variable(dict.get(), name);
    }
  }
}

void StepReads::meet_attributes(PyObject* object) {
  const std::vector<Ref> dicts = dicts_of(object);
  if (dicts.empty()) return;
  if (dicts[0] && PyDict_GetItemString(dicts[0].get(), "_state") != nullptr) meet_children(object);
  meet_special_methods(object, dicts);
  static PyObject* const computed = PyUnicode_InternFromString("__getattr__");
  const bool computes = std::ranges::any_of(dicts, [](const Ref& dict) {
    PyObject* const function = dict ? PyDict_GetItemWithError(dict.get(), computed) : nullptr;
    return function != nullptr && PyFunction_Check(function) && !is_of_weft(PyFunction_GET_GLOBALS(function));
  });
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
      // getattr with a default, hasattr and __getattr__ read that it is absent.
      if ((is_literal || computes) && dicts.front()) add_variable(dicts.front().get(), name);
      continue;
    }
    if (found != dicts.begin() && dicts.front()) add_variable(dicts.front().get(), name);  // one that would hide it
    PyObject* const entry = PyDict_GetItemWithError(found->get(), name);
    const bool is_slot = Py_TYPE(entry) == &PyMemberDescr_Type && !PyType_Check(object);
    if (is_slot || is_thread_local(object)) add_variable(object, name);  // read anew in each thread
    else add_variable(found->get(), name);
  }
}

}  // namespace weft::python
