// The gradient recorder for Python; weft/hooks.py gives it modules.
#include "../hooks/recorder.hpp"

#include "caster.hpp"

namespace weft::python {

void bind_recorder(nb::module_& m) {
  nb::class_<History>(m, "History", "What a GradientRecorder, or those of several ranks, saw from step to step.")
      .def(
          "suspects",
          [](const History& self) {
            std::vector<std::string> texts;
            for (const Suspect& s : find_suspects(self)) texts.push_back(s.text);
            return texts;
          },
          "What looks wrong, the worst first, in sentences.")
      .def(
          "json_lines",
          [](const History& self) {
            std::vector<std::string> lines;
            for (const RecordedStep& step : self.steps) lines.push_back(json_line(self, step));
            return lines;
          },
          "One line of JSON for every step that is kept.")
      .def(
          "html", [](const History& self, const std::string& title) { return report_html(self, title); },
          nb::arg("title") = "Gradients", "The report as one self-contained page.")
      .def("_repr_html_", [](const History& self) { return report_html(self, "Gradients"); });
  nb::class_<GradientRecorder>(m, "_GradientRecorder")
      .def("__init__",
           [](GradientRecorder* self, const std::vector<std::pair<std::string, Tensor>>& named, int64_t every,
              int64_t histogram_every, int64_t kept_steps) {
             NamedTensors parameters;
             for (const auto& [name, tensor] : named) parameters.emplace_back(name, tensor);
             new (self) GradientRecorder(
                 parameters, {.every = every, .histogram_every = histogram_every, .kept_steps = kept_steps}, here());
           })
      .def(
          "watch",
          [](GradientRecorder& self, const std::string& name, const Tensor& activation) {
            self.watch(name, activation, here());
          },
          nb::arg("name"), nb::arg("activation"), "Records an activation and, if one flows, its gradient.")
      .def(
          "step", [](GradientRecorder& self, std::optional<double> loss) { self.step(loss, here()); },
          nb::arg("loss") = nb::none(), "Ends a step, after the optimizer's.")
      .def_prop_ro("finite", &GradientRecorder::finite, "False once a value or gradient held NaN or infinity.")
      .def(
          "history", [](const GradientRecorder& self) { return History(self.history()); },
          "What is kept, as it is now.");
}

}  // namespace weft::python
