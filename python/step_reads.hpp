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

/// Variables that a function reaches through its closure, globals and defaults, through attributes that its code names,
/// also as literals of getattr and hasattr, and through context variables, thread locals and the environment. Numbers,
/// strings, containers, NumPy arrays and partial functions are compared by value, other objects by identity. The caller
/// holds the GIL.
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
  /// A cell, an entry of a dictionary, a slot of an object, or (without a key) the owner itself.
  struct Variable {
    Ref owner, key;
    uint64_t value;
  };
  /// The names in a code that are globals; others are attributes.
  struct Globals {
    Ref code;
    std::vector<PyObject*> names;
  };

  void find_variables();
  void add_variable(PyObject* owner, PyObject* key);
  void meet(PyObject* value);
  static Ref function_behind(PyObject* value);
  void warn_of_draws(PyObject* value);
  void meet_function(PyObject* function);
  void meet_code(PyObject* code, PyObject* globals);
  const std::vector<PyObject*>& globals_of(PyObject* code);
  void meet_attributes(PyObject* object);
  void meet_children(PyObject* object);
  bool is_own(const Variable& v) const;

  PyObject* step_;
  std::vector<Variable> variables_;
  std::vector<std::pair<Ref, Ref>> own_;
  std::list<Globals> globals_;
  std::vector<Ref> objects_;
  std::vector<PyObject*> names_, literals_;
  std::unordered_set<const void*> met_;
  std::string settings_;
  bool found_ = false, warned_ = false;
  uint64_t configuration_ = 0;
};

}  // namespace weft::python
