// Stops at ops, reproductions and recorded steps for Python; weft/hooks.py gives them keywords.
#include "replay.hpp"

#include <memory>
#include <stdexcept>

#include "../hooks/break_on.hpp"
#include "../io/replay.hpp"
#include "../io/step_recorder.hpp"
#include "../optim/master_weights.hpp"
#include "../optim/optim.hpp"

#include "module_object.hpp"
#include "run_state.hpp"

namespace weft::python {

namespace {

// ---- stops ----------------------------------------------------------------------------------------------------------

/// A BreakEvent that outlives the stop.
nb::dict event_dict(const BreakEvent& event) {
  nb::dict out;
  out["op"] = event.op, out["location"] = event.where.text(), out["backward"] = event.backward;
  out["after"] = event.after, out["kernel"] = event.kernel != nullptr ? nb::cast(event.kernel) : nb::none();
  out["incoming"] = std::vector<Tensor>(), out["outgoing"] = std::vector<Tensor>();
  const auto tensors = [](std::span<const Tensor> given) {
    nb::list list;
    for (const Tensor& t : given) list.append(t.defined() ? nb::cast(t) : nb::none());
    return list;
  };
  out["incoming"] = tensors(event.incoming), out["outgoing"] = tensors(event.outgoing);
  out["text"] = event.text();
  return out;
}

weft::Callback<void(const BreakEvent&)> function_of(nb::handle callable) {
  return [call = Callback(callable)](const BreakEvent& event) {
    const WithGil gil;
    const nb::dict told = event_dict(event);
    const Ref result(PyObject_CallFunctionObjArgs(call.get(), told.ptr(), nullptr));
    if (result.get() == nullptr) carry_error();
  };
}

/// Begins and ends with a `with` block.
class Stop {
 public:
  Stop(BreakOptions options, std::optional<nn::Module> model)
      : options_(std::move(options)), model_(std::move(model)) {}
  void enter() {
    const Location where = here();
    if (model_) stop_ = std::make_unique<BreakOn>(*model_, options_, where);
    else stop_ = std::make_unique<BreakOn>(options_, where);
  }
  void leave() {
    stops_ += stop_ == nullptr ? 0 : stop_->stops();
    stop_.reset();
  }
  int64_t stops() const { return stops_ + (stop_ == nullptr ? 0 : stop_->stops()); }

 private:
  BreakOptions options_;
  std::optional<nn::Module> model_;
  std::unique_ptr<BreakOn> stop_;
  int64_t stops_ = 0;
};

void bind_stops(nb::module_& m) {
  nb::class_<Stop>(m, "_BreakOn")
      .def(
          "__init__",
          [](Stop* self, const std::string& op, const std::string& line, const std::string& module, bool non_finite,
             int64_t skip, const std::string& repro, nb::handle call, nb::handle model) {
            const BreakOptions options{.op = op,
                                       .line = line,
                                       .module = module,
                                       .non_finite = non_finite,
                                       .skip = skip,
                                       .repro = repro,
                                       .call = function_of(call)};
            new (self) Stop(options, model.is_none() ? std::nullopt : std::optional(module_of(model)));
          },
          nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("enter", &Stop::enter)
      .def("leave", &Stop::leave)
      .def_prop_ro("stops", &Stop::stops, "How often it stopped.");
}

// ---- reproductions --------------------------------------------------------------------------------------------------

void bind_reproductions(nb::module_& m) {
  using io::Replayed;
  nb::class_<Replayed>(m, "Replayed", "The results of a kernel call that was repeated.")
      .def_prop_ro(
          "happens", [](const Replayed& r) { return r.happens; }, "NaN or an infinity was made again, as it was then.")
      .def_prop_ro(
          "text", [](const Replayed& r) { return r.text; }, "Lines for people.")
      .def_prop_ro(
          "inputs", [](const Replayed& r) { return r.inputs; }, "The inputs of the kernel.")
      .def_prop_ro(
          "outputs", [](const Replayed& r) { return r.outputs; }, "Its outputs.")
      .def_prop_ro(
          "arrived", [](const Replayed& r) { return r.arrived; },
          "The gradients that arrived at the op, for a kernel of its backward.");
  m.def(
      "_replay",
      [](const std::string& folder, std::optional<Device> device) { return io::replay(folder, device, here()); },
      nb::arg(), nb::arg().none());
}

// ---- recorded steps -------------------------------------------------------------------------------------------------

/// From (module, optimizer or None, generators by name, masters or None); they must outlive the run.
io::TrainingRun run_of(const nb::tuple& given) {
  const auto pointer = [&]<class T>(size_t i, T*) { return given[i].is_none() ? nullptr : nb::cast<T*>(given[i]); };
  return {module_of(given[0]), pointer(1, static_cast<optim::Optimizer*>(nullptr)),
          generators_of(nb::cast<nb::dict>(given[2])), pointer(3, static_cast<optim::MasterWeights*>(nullptr))};
}

/// A function that returns a tensor, None, or its error as a str.
io::StepFunction step_of(nb::handle callable) {
  return [call = Callback(callable)](const io::TensorMap& batch) -> Tensor {
    const WithGil gil;
    nb::dict given;
    for (const auto& [name, tensor] : batch) given[name.c_str()] = tensor;
    const Ref result(PyObject_CallFunctionObjArgs(call.get(), given.ptr(), nullptr));
    if (result.get() == nullptr) carry_error();
    if (result.get() == Py_None) return {};
    if (PyUnicode_Check(result.get())) throw std::runtime_error(nb::cast<std::string>(nb::handle(result.get())));
    if (!is_tensor(result.get())) {
      PyErr_Format(PyExc_TypeError, "result of a step: expected its loss, a Tensor, or None, got %s",
                   Py_TYPE(result.get())->tp_name);
      carry_error();
    }
    return tensor_of(result.get());
  };
}

std::string text_from(const Callback& callable) {
  const WithGil gil;
  const Ref result(PyObject_CallNoArgs(callable.get()));
  if (result.get() == nullptr) carry_error();
  return nb::cast<std::string>(nb::handle(result.get()));
}

/// JSON texts by name, of a function without arguments.
weft::Callback<void(io::RunState&)> adding(nb::handle callable) {
  if (callable.is_none()) return {};
  return [call = Callback(callable)](io::RunState& state) {
    const WithGil gil;
    const Ref result(PyObject_CallNoArgs(call.get()));
    if (result.get() == nullptr) carry_error();
    for (const auto& [name, text] : nb::cast<std::map<std::string, std::string>>(nb::handle(result.get()))) {
      state.documents[name] = text;
    }
  };
}
weft::Callback<void(const io::RunState&)> restoring(nb::handle callable) {
  if (callable.is_none()) return {};
  return [call = Callback(callable)](const io::RunState& state) {
    const WithGil gil;
    const nb::object documents = nb::cast(state.documents);
    const Ref result(PyObject_CallFunctionObjArgs(call.get(), documents.ptr(), nullptr));
    if (result.get() == nullptr) carry_error();
  };
}

void bind_steps(nb::module_& m) {
  using io::StepRecorder, io::ReplayedStep;
  nb::class_<StepRecorder>(m, "_StepRecorder")
      .def(
          "__init__",
          [](StepRecorder* self, const std::string& folder, const nb::tuple& run, bool loss, bool gradients,
             bool parameters, nb::handle finding, nb::handle add_state, int64_t most_bytes, int64_t first_step) {
            weft::Callback<std::string()> found;
            if (!finding.is_none()) {
              found = [call = Callback(finding)] { return text_from(call); };
            }
            new (self) StepRecorder(folder, run_of(run),
                                    {.loss = loss,
                                     .gradients = gradients,
                                     .parameters = parameters,
                                     .finding = found,
                                     .add_state = adding(add_state),
                                     .most_bytes = most_bytes,
                                     .first_step = first_step},
                                    here());
          },
          nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(),
          nb::arg())
      .def("_step",
           [](StepRecorder& self, nb::handle function, const io::TensorMap& batch) -> std::optional<Tensor> {
             const Location where = here();
             const io::StepFunction step = step_of(function);
             const WithoutGil others;
             const Tensor loss = self.step(step, batch, where);
             return loss.defined() ? std::optional(loss) : std::nullopt;
           })
      .def_prop_ro("found", &StepRecorder::found, "Whether a bad step came.")
      .def_prop_ro(
          "text", [](const StepRecorder& r) { return r.text(); }, "Which step it was, why, and where it was left.");
  nb::class_<ReplayedStep>(m, "ReplayedStep", "A recorded step that ran again.")
      .def_ro("step", &ReplayedStep::step)
      .def_ro("why", &ReplayedStep::why, "Why it was bad; empty for a good one.")
      .def_ro("happens", &ReplayedStep::happens, "It is bad again.")
      .def_ro("same_bits", &ReplayedStep::same_bits,
              "The loss and every weight, gradient and state have the bits of then.")
      .def_ro("differs", &ReplayedStep::differs, "The values that differ, by name.")
      .def_ro("text", &ReplayedStep::text, "Lines for people.")
      .def_prop_ro("loss",
                   [](const ReplayedStep& r) { return r.loss.defined() ? std::optional(r.loss) : std::nullopt; });
  m.def(
      "_replay_step",
      [](const std::string& folder, const nb::tuple& given, nb::handle function, bool last_good, nb::handle restore) {
        const Location where = here();
        const io::TrainingRun run = run_of(given);
        const io::StepFunction step = step_of(function);
        const io::ReplayStepOptions options{last_good, restoring(restore)};
        const WithoutGil others;
        return io::replay_step(folder, run, step, options, where);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("_holds_step", [](const std::string& folder) { return io::holds_step(folder); });
  m.def("_step_text", [](const std::string& folder) { return io::step_text(folder, here()); });
}

}  // namespace

void bind_replay(nb::module_& m) {
  bind_stops(m);
  bind_reproductions(m);
  bind_steps(m);
}

}  // namespace weft::python
