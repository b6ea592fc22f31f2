// The gradient recorder and its logs for Python; weft/hooks.py gives it modules.
#include "../hooks/recorder.hpp"
#include "../io/gradient_log.hpp"

#include <memory>

#include "module_object.hpp"

namespace weft::python {

namespace {

/// A page as a notebook shows it: in a frame of its own, with scripts that reach nothing around it.
std::string framed(const std::string& page) {
  std::string out = R"(<iframe sandbox="allow-scripts" style="width:100%;height:900px;border:0" srcdoc=")";
  for (const char c : page) {
    if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out + R"("></iframe>)";
}

void bind_history(nb::module_& m) {
  nb::class_<History>(m, "History", "The records of a GradientRecorder, or of those of several ranks, step by step.")
      .def(
          "suspects",
          [](const History& self) {
            std::vector<std::string> texts;
            for (const Suspect& s : find_suspects(self)) texts.push_back(s.text);
            return texts;
          },
          "The suspects, the worst first, in sentences.")
      .def(
          "json_lines",
          [](const History& self) {
            std::vector<std::string> lines;
            for (const HistoryStep& step : self.steps) lines.push_back(json_line(self, step));
            return lines;
          },
          "One line of JSON for every step that is kept.")
      .def(
          "html", [](const History& self, const std::string& title) { return report_html(self, title); },
          nb::arg("title") = "Gradients", "The report as one self-contained page.")
      .def(
          "text",
          [](const History& self, const std::string& title, int columns, size_t rows, bool ascii) {
            return report_text(self, title, {.columns = columns, .rows = rows, .ascii = ascii});
          },
          nb::arg("title") = "Gradients", nb::arg("columns") = 100, nb::arg("rows") = 40, nb::arg("ascii") = false,
          "The report for a terminal.")
      .def("_repr_html_", [](const History& self) { return framed(report_html(self)); });
  m.def(
      "_load_history", [](const std::string& path) { return io::load_history(path, here()); }, nb::arg("path"));
  m.def("_comparison_html",
        [](const std::string& left_title, const History& left, const std::string& right_title, const History& right) {
          return comparison_html({left_title, left}, {right_title, right});
        });
}

/// A module as a recorder sees it, and the hooks that it got, to be removed before the recorder is.
struct HookedModule {
  nn::Module module;
  std::shared_ptr<std::vector<HookHandle>> handles;

  using Named = std::vector<std::pair<std::string, HookedModule>>;
  Named hooked(std::vector<std::pair<std::string, nn::Module>> modules) const {
    Named out;
    for (auto& [name, m] : modules) out.emplace_back(name, HookedModule{m, handles});
    return out;
  }
  auto named_parameters() const { return module.named_parameters(); }
  auto parameters() const { return module.parameters(); }
  Named named_children() const { return hooked(module.named_children()); }
  Named named_modules() const { return hooked(module.named_modules()); }
  bool same_as(const HookedModule& other) const { return module.same_as(other.module); }
  std::string class_name() const { return module.class_name(); }
  std::string extra_repr() const { return module.extra_repr(); }
  /// Values other than tensors in the result of forward are undefined tensors, which are skipped.
  template <class F>
  HookHandle register_forward_hook(F&& hook) {
    const auto see = [hook = std::forward<F>(hook)](const nn::ForwardEvent& e) {
      std::vector<Tensor> given;
      for (const Tensor& t : e.outputs) {
        if (t.defined()) given.push_back(t);
      }
      hook(nn::ForwardEvent{e.module, e.inputs, given, e.location, e.phase});
    };
    return handles->emplace_back(module.register_forward_hook(see));
  }
};

/// Python's recorder, which may stop watching activations.
struct Recorder : GradientRecorder {
  Recorder(const nn::Module& module, RecorderOptions options, std::shared_ptr<std::vector<HookHandle>> all,
           Location where)
      : GradientRecorder(HookedModule{module, all}, options, where), handles(std::move(all)) {}
  Recorder(const NamedTensors& parameters, RecorderOptions options, Location where)
      : GradientRecorder(parameters, options, where) {}
  std::shared_ptr<std::vector<HookHandle>> handles = {};
};

void bind_log(nb::module_& m) {
  nb::class_<io::GradientLog>(m, "_GradientLog")
      .def("__init__",
           [](io::GradientLog* self, const GradientRecorder& recorder, const std::string& folder, bool json_lines,
              bool tensorboard, bool page, const std::string& title, double page_every, bool at_any_end) {
             new (self) io::GradientLog(recorder, folder,
                                        {.json_lines = json_lines,
                                         .tensorboard = tensorboard,
                                         .page = page,
                                         .title = title,
                                         .page_every = page_every,
                                         .at_any_end = at_any_end},
                                        here());
           })
      .def(
          "save_page", [](io::GradientLog& self) { return self.save_page(here()).string(); },
          "Writes the page so far and returns its path.")
      .def("set_note", &io::GradientLog::set_note, nb::arg("note"),
           "The text under the title of the pages from now on, such as why the run ended.");
}

}  // namespace

void bind_recorder(nb::module_& m) {
  bind_history(m);
  nb::class_<GradientRecorder>(m, "_AnyRecorder");
  nb::class_<Recorder, GradientRecorder>(m, "_GradientRecorder")
      .def("__init__",
           [](Recorder* self, const std::vector<std::pair<std::string, Tensor>>& named, int64_t every,
              int64_t histogram_every, int64_t kept_steps) {
             NamedTensors parameters;
             for (const auto& [name, tensor] : named) parameters.emplace_back(name, tensor);
             new (self) Recorder(
                 parameters, {.every = every, .histogram_every = histogram_every, .kept_steps = kept_steps}, here());
           })
      .def("__init__",
           [](Recorder* self, nb::handle state, int64_t every, int64_t histogram_every, int64_t kept_steps) {
             new (self) Recorder(module_of(state),
                                 {.every = every, .histogram_every = histogram_every, .kept_steps = kept_steps},
                                 std::make_shared<std::vector<HookHandle>>(), here());
           })
      .def(
          "remove",
          [](Recorder& self) {
            if (self.handles == nullptr) return;
            for (HookHandle& handle : *self.handles) handle.remove();
          },
          "Stops watching activations and calls.")
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
          "history", [](const GradientRecorder& self) { return History(self.history()); }, "The current history.");
  bind_log(m);
  m.def("_watch", [](const Tensor& x, const std::string& name) { (void)watch(x, name, here()); });
}

}  // namespace weft::python
