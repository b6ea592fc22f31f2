// The Python line of a call, as a Location: the address of the running instruction is looked up in a table, and only a
// call site that was never seen before asks Python for its file and line.
#define Py_BUILD_CORE 1
#include <Python.h>
#if PY_VERSION_HEX < 0x030e0000
#include <internal/pycore_frame.h>
#endif
#undef Py_BUILD_CORE

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "object.hpp"

namespace weft::python {

namespace {

struct Entry {
  const void* instruction = nullptr;
  CallSite site = {};
};

// Entries live for ever, since nodes point at them. A program that runs generated code without end stops naming its
// lines rather than growing without end.
constexpr size_t most = 1 << 17;
std::unordered_map<const void*, Entry> entries;
// In front of the map, by address.
constexpr size_t slots = 1 << 12;
const Entry* recent[slots];

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
struct Running {
  PyCodeObject* code;
  const void* instruction;
};
Running running() {
#if PY_VERSION_HEX >= 0x030d0000
  _PyInterpreterFrame* frame = PyThreadState_GetUnchecked()->current_frame;
  while (frame != nullptr && frame->owner == FRAME_OWNED_BY_CSTACK) frame = frame->previous;
  if (frame == nullptr || !PyCode_Check(frame->f_executable)) return {};
  return {reinterpret_cast<PyCodeObject*>(frame->f_executable), frame->instr_ptr};
#else
  _PyInterpreterFrame* frame = PyThreadState_Get()->cframe->current_frame;
#if PY_VERSION_HEX >= 0x030c0000
  while (frame != nullptr && frame->owner == FRAME_OWNED_BY_CSTACK) frame = frame->previous;
#endif
  if (frame == nullptr) return {};
  return {frame->f_code, frame->prev_instr};
#endif
}
int line_of(const Running& place) {
  const char* start = reinterpret_cast<const char*>(_PyCode_CODE(place.code));
  return PyCode_Addr2Line(place.code, static_cast<int>(static_cast<const char*>(place.instruction) - start));
}
#endif

}  // namespace

Location here() {
#if PY_VERSION_HEX < 0x030e0000
  const Running place = running();
  if (place.code == nullptr) return Location::none();
  const auto address = reinterpret_cast<uintptr_t>(place.instruction);
  const Entry*& slot = recent[(address >> 1 ^ address >> 13) % slots];
  if (slot != nullptr && slot->instruction == place.instruction) return Location::at(slot->site);
  auto found = entries.find(place.instruction);
  if (found == entries.end()) {
    if (entries.size() == most) return Location::none();
    // The code object is kept, so that its instructions' addresses stay its own.
    Py_INCREF(place.code);
    const auto line = static_cast<unsigned>(std::max(0, line_of(place)));
    found =
        entries.emplace(place.instruction, Entry{place.instruction, {kept_name(place.code->co_filename), line}}).first;
  }
  slot = &found->second;
  return Location::at(slot->site);
#else
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  if (frame == nullptr) return Location::none();
  PyCodeObject* code = PyFrame_GetCode(frame);
  static std::map<std::pair<const char*, int>, CallSite> sites;
  const int line = PyFrame_GetLineNumber(frame);
  const char* file = kept_name(code->co_filename);
  CallSite& site = sites[{file, line}];
  site = {file, static_cast<unsigned>(line > 0 ? line : 0)};
  Py_DECREF(code);
  Py_DECREF(frame);
  return Location::at(site);
#endif
}

}  // namespace weft::python
