// Values that the function of a captured step reads besides its arguments.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "object.hpp"

namespace weft::python {

/// Variables that a function reaches through its closure, globals, defaults and attributes, through attributes that its
/// code names, also as literals of getattr and hasattr, through special methods of the program's classes, and through
/// context variables, thread locals, weak references and the environment. Values are compared as in host_values.hpp.
/// The caller holds the GIL.
class StepReads {
 public:
  explicit StepReads(PyObject* step) : step_(step) {}
  /// Equal if all variables have the same values. Variables that the step itself changes are left out. Warns once if
  /// the step names a random generator of Python or NumPy.
  const std::string& settings();
  /// After the step has run: the variables that it changed are its own, and no settings.
  void note_own_changes();
  /// For Python's collector of cycles. After `clear` only the destructor may be called.
  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  /// A cell, an entry of a dictionary, a slot of an object, or (without a key) the owner itself. `object` is its value
  /// if that has a fixed hash.
  struct Variable {
    Ref owner, key, object;
    uint64_t hash;
  };
  struct HashOfPair {
    size_t operator()(const std::pair<PyObject*, PyObject*>& p) const {
      return std::hash<PyObject*>()(p.first) * 31 + std::hash<PyObject*>()(p.second);
    }
  };
  /// The names in a code that are globals; others are attributes.
  struct Globals {
    Ref code;
    std::vector<PyObject*> names;
  };

  void find_variables();
  void add_variable(PyObject* owner, PyObject* key);
  void meet(PyObject* value);
  void warn_of_draws(PyObject* value);
  void meet_function(PyObject* function);
  void meet_code(PyObject* code, PyObject* globals);
  const std::vector<PyObject*>& globals_of(PyObject* code);
  void meet_attributes(PyObject* object);
  void meet_special_methods(PyObject* object, const std::vector<Ref>& dicts);
  void meet_children(PyObject* object);
  static bool is_unchanged(const Variable& v);
  bool is_own(const Variable& v) const;

  PyObject* step_;
  std::vector<Variable> variables_;
  std::vector<std::pair<Ref, Ref>> own_;
  std::list<Globals> globals_;
  std::vector<Ref> objects_;
  std::vector<PyObject*> names_, literals_;
  std::unordered_set<const void*> met_;
  std::unordered_set<std::pair<PyObject*, PyObject*>, HashOfPair> added_;
  std::string settings_;
  bool found_ = false, warned_ = false;
  uint64_t configuration_ = 0;
};

}  // namespace weft::python
