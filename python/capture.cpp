// Captured steps for Python: the recordings are C++'s, the step is a callable.
#include "../hooks/capture.hpp"

#include "../tensor/configuration.hpp"
#include "../tensor/capture_recorder.hpp"
#include "caster.hpp"
#include "step_reads.hpp"

namespace weft::python {

namespace {

enum class Returned : uint8_t { nothing, tensor, several };

/// The callable, and the kind of its last result.
struct Step {
  Callback function;
  Returned returned = Returned::nothing;
  StepReads reads = StepReads(function.get());
};

std::vector<Tensor> run_step(void* held, std::span<const Tensor> inputs) {
  auto& step = *static_cast<Step*>(held);
  const WithGil gil;
  const Ref arguments(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; i < inputs.size(); ++i) {
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), wrap(inputs[i]));
  }
  PyObject* made = PyObject_CallObject(step.function.get(), arguments.get());
  if (made == nullptr) carry_error();
  const Ref result(made);
  step.reads.note_own_changes();
  step.returned = made == Py_None ? Returned::nothing : is_tensor(made) ? Returned::tensor : Returned::several;
  try {
    return tensors_from(made).value_or(std::vector<Tensor>());
  } catch (const PythonError&) {
    carry_error();
  }
}

struct CapturedStep {
  CapturedStep(nb::handle function, int most_recordings)
      : step{Callback(function)}, replayer({.most_recordings = most_recordings}) {}

  nb::object call(const nb::args& given) {
    std::vector<Tensor> inputs;
    for (nb::handle argument : given) {
      if (!is_tensor(argument.ptr())) {
        throw_type_error("captured step: expected tensors, got " + type_name(argument.ptr()) +
                         "; capture other values in the function");
      }
      inputs.push_back(tensor_of(argument.ptr()));
    }
    const Location where = here();
    const std::string settings = step.reads.settings();
    std::vector<Tensor> results;
    {
      const WithoutGil others;
      results = replayer.run(run_step, &step, inputs, where, settings);
    }
    if (step.returned == Returned::nothing) return nb::none();
    if (step.returned == Returned::tensor) return nb::cast(results.front());
    return nb::tuple(nb::cast(results));
  }

  nb::dict stats() const {
    const CaptureStats s = replayer.stats();
    nb::dict stats;
    stats["eager"] = s.eager;
    stats["recorded"] = s.recorded;
    stats["replayed"] = s.replayed;
    stats["recordings"] = s.recordings;
    stats["kernels"] = s.kernels;
    stats["batched"] = s.batched;
    stats["bytes"] = s.bytes;
    return stats;
  }

  Step step;
  detail::StepReplayer replayer;
};

// A step that an object holds and that reads the object is a cycle.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const Step& step = nb::inst_ptr<CapturedStep>(self)->step;
  Py_VISIT(step.function.get());
  return step.reads.traverse(visit, arg);
}

int clear(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  Step& step = nb::inst_ptr<CapturedStep>(self)->step;
  step.reads.clear();
  step.function = Callback(nb::none());
  return 0;
}

PyType_Slot slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

}  // namespace

void bind_capture(nb::module_& m) {
  m.def("_new_setting", detail::new_setting);
  m.def("_toggle_setting", detail::toggle_configuration);
  m.def("_change_settings", detail::change_configuration);
  m.def("_set_settings", [](uint64_t before, uint64_t now) {
    if (detail::capture_recorder != nullptr) return;  // the step's own
    detail::toggle_configuration(before);
    detail::toggle_configuration(now);
  });
  nb::class_<CapturedStep>(m, "CapturedStep", nb::type_slots(slots),
                           "A step that runs again as the list of its kernels.")
      .def("__call__", &CapturedStep::call,
           "The step's results, detached; the next call writes over those of a replay.")
      .def("stats", &CapturedStep::stats, "How often it ran, was recorded and was replayed, and the recordings kept.")
      .def(
          "forget", [](CapturedStep& self) { self.replayer.forget(); }, "Drops all recordings and their memory.");
  m.def(
      "capture", [](const nb::callable& step, int most_recordings) { return CapturedStep(step, most_recordings); },
      nb::arg("step"), nb::arg("most_recordings") = CaptureOptions().most_recordings,
      "Records a step, a function of tensors, and replays it with the same bits. It is a decorator, too.");
}

}  // namespace weft::python
