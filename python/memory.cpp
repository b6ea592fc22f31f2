// The history of memory for Python; weft/hooks.py gives it modules.
#include "../hooks/memory_history.hpp"

#include "module_object.hpp"

namespace weft::python {

namespace {

/// Ends where Python says so, not with the last reference.
class History {
 public:
  explicit History(NamedTensors parameters) { history_.emplace(std::move(parameters), here()); }
  explicit History(const nn::Module& module) { history_.emplace(module, here()); }
  void close() { history_.reset(); }
  MemoryHistory& open() {
    if (!history_) raise<ValueError>({.op = "MemoryHistory", .problem = "it was closed"}, here());
    return *history_;
  }

 private:
  std::optional<MemoryHistory> history_;
};

}  // namespace

void bind_memory_history(nb::module_& m) {
  nb::class_<History>(m, "_MemoryHistory")
      .def("__init__",
           [](History* self, const std::vector<std::pair<std::string, Tensor>>& named) {
             new (self) History(NamedTensors(named.begin(), named.end()));
           })
      .def("__init__", [](History* self, nb::handle state) { new (self) History(module_of(state)); })
      .def(
          "step", [](History& self) { self.open().step(); }, "Ends a step, after the optimizer's.")
      .def("close", &History::close, "Nothing is noted from now on.")
      .def(
          "_json", [](History& self, Device device) { return self.open().snapshot(device).json(); }, nb::arg())
      .def(
          "_peak_json", [](History& self, Device device) { return self.open().peak(device).json(); }, nb::arg())
      .def(
          "text",
          [](History& self, Device device, size_t max_lines) { return self.open().snapshot(device).text(max_lines); },
          nb::arg("device") = Device(), nb::arg("most_lines") = 20, "The tensors on a device, as readable lines.")
      .def(
          "growth_text", [](History& self) { return self.open().growth_text(); },
          "The lines that keep more at the end of each step; empty where none does.")
      .def(
          "svg", [](History& self, Device device) { return self.open().svg(device); }, nb::arg("device") = Device(),
          "The memory of the last step over time, by kind, and the tensors at its highest point.");
  m.def("_memory_snapshot", [](Device device, const std::vector<std::pair<std::string, Tensor>>& named) {
    return memory_snapshot(device, NamedTensors(named.begin(), named.end()), here()).json();
  });
}

}  // namespace weft::python
