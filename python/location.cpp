// Finds the Python line of a call as a Location. The address of the running instruction is looked up in a table of
// {file, line}; Python is asked only at the first call from a site. The lowest bit of the pointer distinguishes such a
// Location from a C++ one. Lines of the package are skipped, so errors name the user's line.
#define Py_BUILD_CORE 1
#include <Python.h>
#if PY_VERSION_HEX < 0x030e0000
#include <internal/pycore_frame.h>
#endif
#undef Py_BUILD_CORE

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "object.hpp"

namespace weft::python {

namespace {

struct Entry {
  const void* instruction = nullptr;
  CallSite site = {};
  bool internal = false;
};

// Entries live for ever, since nodes point at them. A program that runs generated code without end stops naming its
// lines rather than growing without end.
constexpr size_t limit = 1 << 17;
std::unordered_map<const void*, Entry> entries;
// In front of the map, by address.
constexpr size_t slots = 1 << 12;
const Entry* recent[slots];
// The folder of the package's own files, with a separator at its end.
std::string package_folder;

bool is_internal(const char* file) {
  return !package_folder.empty() && std::strncmp(file, package_folder.c_str(), package_folder.size()) == 0;
}

const char* kept_name(PyObject* name) {
  static std::unordered_set<std::string> names;
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) {
    PyErr_Clear();
    text = "?";
  }
  return names.emplace(text).first->c_str();
}

#if PY_VERSION_HEX < 0x030e0000
using Frame = _PyInterpreterFrame;
// From here on, the innermost frame of Python code; null at the end of the stack.
#if PY_VERSION_HEX >= 0x030d0000
Frame* python_frame(Frame* frame) {
  while (frame != nullptr && (frame->owner == FRAME_OWNED_BY_CSTACK || !PyCode_Check(frame->f_executable))) {
    frame = frame->previous;
  }
  return frame;
}
Frame* running_frame() { return python_frame(PyThreadState_GetUnchecked()->current_frame); }
PyCodeObject* code_of(const Frame* frame) { return reinterpret_cast<PyCodeObject*>(frame->f_executable); }
const void* instruction_of(const Frame* frame) { return frame->instr_ptr; }
#else
Frame* python_frame(Frame* frame) {
#if PY_VERSION_HEX >= 0x030c0000
  while (frame != nullptr && frame->owner == FRAME_OWNED_BY_CSTACK) frame = frame->previous;
#endif
  return frame;
}
Frame* running_frame() { return python_frame(PyThreadState_Get()->cframe->current_frame); }
PyCodeObject* code_of(const Frame* frame) { return frame->f_code; }
const void* instruction_of(const Frame* frame) { return frame->prev_instr; }
#endif

int line_of(const Frame* frame) {
  const char* start = reinterpret_cast<const char*>(_PyCode_CODE(code_of(frame)));
  const auto offset = static_cast<const char*>(instruction_of(frame)) - start;
  return std::max(0, PyCode_Addr2Line(code_of(frame), static_cast<int>(offset)));
}

// Null where the table is full.
const Entry* entry_of(const Frame* frame) {
  const void* instruction = instruction_of(frame);
  const auto address = reinterpret_cast<uintptr_t>(instruction);
  const Entry*& slot = recent[(address >> 1 ^ address >> 13) % slots];
  if (slot != nullptr && slot->instruction == instruction) return slot;
  auto found = entries.find(instruction);
  if (found == entries.end()) {
    if (entries.size() == limit) return nullptr;
    // The code object is kept, so that its instructions' addresses stay its own.
    Py_INCREF(code_of(frame));
    const char* file = kept_name(code_of(frame)->co_filename);
    const auto line = static_cast<unsigned>(line_of(frame));
    found = entries.emplace(instruction, Entry{instruction, {file, line}, is_internal(file)}).first;
  }
  return slot = &found->second;
}
#endif

}  // namespace

Location here() {
#if PY_VERSION_HEX < 0x030e0000
  const Entry* first = nullptr;
  for (Frame* frame = running_frame(); frame != nullptr; frame = python_frame(frame->previous)) {
    const Entry* entry = entry_of(frame);
    if (entry == nullptr) return Location::none();
    if (!entry->internal) return Location::at(entry->site);
    if (first == nullptr) first = entry;
  }
  return first != nullptr ? Location::at(first->site) : Location::none();
#else
  static std::map<std::pair<const char*, int>, CallSite> sites;
  const CallSite *first = nullptr, *outside = nullptr;
  for (PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get()); frame != nullptr;) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const int line = std::max(0, PyFrame_GetLineNumber(frame));
    const char* file = kept_name(code->co_filename);
    Py_DECREF(code);
    CallSite& site = sites[{file, line}];
    site = {file, static_cast<unsigned>(line)};
    if (first == nullptr) first = &site;
    if (!is_internal(file)) outside = &site;
    PyFrameObject* back = outside == nullptr ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = back;
  }
  if (outside != nullptr) first = outside;
  return first != nullptr ? Location::at(*first) : Location::none();
#endif
}

void pass_over_files_in(const std::string& folder) { package_folder = folder; }

}  // namespace weft::python
