// What the function of a captured step reads besides its arguments.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "object.hpp"

namespace weft::python {

/// Variables that a function reaches through its closure, globals and defaults, and through attributes that its code
/// names. Numbers, strings and containers count by value, other objects by identity. The caller holds the GIL.
class StepReads {
 public:
  explicit StepReads(PyObject* step) : step_(step) {}
  /// Equal where all variables have the same values. What the step has itself changed is left out.
  const std::string& settings();
  /// After the step has run: the variables that it changed are its own, and no settings.
  void note_own_changes();

 private:
  /// A cell, or an entry of a dictionary.
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
  std::vector<PyObject*> names_;
  std::unordered_set<const void*> met_;
  std::string settings_;
  bool found_ = false;
  uint64_t configuration_ = 0;
};

}  // namespace weft::python
