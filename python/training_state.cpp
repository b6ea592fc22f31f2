// Training states for Python; weft/_training_state.py gives them keywords.
#include "../io/mapping.hpp"
#include "../optim/master_weights.hpp"
#include "../train/checkpoints.hpp"

#include "run_state.hpp"

namespace weft::python {

namespace {

template <class T>
T* pointer_or_null(nb::handle object) {
  return object.is_none() ? nullptr : nb::cast<T*>(object);
}

/// Of (module, optimizer or None, generators by name, masters or None).
io::TrainingRun run_of(const nb::tuple& given) {
  return {module_of(given[0]), pointer_or_null<optim::Optimizer>(given[1]), generators_of(nb::cast<nb::dict>(given[2])),
          pointer_or_null<optim::MasterWeights>(given[3])};
}

}  // namespace

void bind_training_states(nb::module_& m) {
  m.def("_save_training_state",
        [](const std::string& folder, const nb::tuple& given, const RunFields& fields, int64_t keep_last) {
          const Location where = here();
          const io::TrainingRun run = run_of(given);
          const io::RunState state = state_of(fields);
          const WithoutGil others;
          return io::save_training_state(folder, run, state, {keep_last}, where).string();
        });
  m.def(
      "_load_training_state",
      [](const std::string& folder, const nb::tuple& given, bool weights_only, const io::Mapping* mapping) {
        return fields_of(io::load_training_state(folder, run_of(given), {weights_only, mapping}, here()));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("_read_run_state", [](const std::string& folder) { return fields_of(io::read_run_state(folder, here())); });
  m.def("_training_states", [](const std::string& folder) {
    std::vector<std::string> paths;
    for (const io::Path& path : io::training_states(folder)) paths.push_back(path.string());
    return paths;
  });
  nb::class_<io::BackgroundSaver>(m, "_BackgroundSaver")
      .def("__init__", [](io::BackgroundSaver* self, const std::string& folder,
                          int64_t keep_last) { new (self) io::BackgroundSaver(folder, {keep_last}, here()); })
      .def("save",
           [](io::BackgroundSaver& self, const nb::tuple& given, const RunFields& fields) {
             const Location where = here();
             const io::TrainingRun run = run_of(given);
             const io::RunState state = state_of(fields);
             const WithoutGil others;
             self.save(run, state, where);
           })
      .def("wait", [](io::BackgroundSaver& self) {
        const WithoutGil others;
        return self.wait().string();
      });
}

void bind_checkpoints(nb::module_& m) {
  using train::Checkpoints;
  nb::class_<Checkpoints>(m, "_Checkpoints")
      .def("__init__",
           [](Checkpoints* self, const std::string& folder, int64_t keep_last, bool keep_best) {
             new (self) Checkpoints({.folder = folder, .keep_last = keep_last, .keep_best = keep_best}, here());
           })
      .def("save",
           [](Checkpoints& self, bool is_best, const nb::tuple& given, const RunFields& fields) {
             const Location where = here();
             const io::TrainingRun run = run_of(given);
             const io::RunState state = state_of(fields);
             const WithoutGil others;
             self.save(run, state, is_best, where);
           })
      .def("wait", [](Checkpoints& self) {
        const Location where = here();
        const WithoutGil others;
        self.wait(where);
      });
}

}  // namespace weft::python
