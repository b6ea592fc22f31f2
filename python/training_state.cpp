// Training states for Python; weft/_training_state.py gives them keywords.
#include "../io/mapping.hpp"
#include "../io/training_state.hpp"
#include "../train/checkpoints.hpp"

#include "caster.hpp"
#include "generator.hpp"

namespace weft::python {

namespace {

using Generators = std::map<std::string, nb::object>;
using Documents = std::map<std::string, std::string>;

io::TrainingRun run_of(nb::handle state, optim::Optimizer* optimizer, const Generators& given) {
  io::TrainingRun run{module_of(state), optimizer, {}};
  for (const auto& [name, object] : given) {
    Generator* const generator = to_generator(object.ptr());
    if (generator == nullptr) throw_type_error("argument 'generators' holds what is no weft.Generator");
    run.generators.emplace(name, generator);
  }
  return run;
}

io::RunState state_of(int64_t step, int64_t epoch, int64_t samples, std::optional<double> best_metric,
                      int64_t accumulated, const Documents& documents) {
  return {step, epoch, samples, best_metric, accumulated, documents};
}

nb::tuple numbers_of(const io::RunState& s) {
  return nb::make_tuple(s.step, s.epoch, s.samples, s.best_metric, s.accumulated, s.documents);
}

}  // namespace

void bind_training_states(nb::module_& m) {
  m.def(
      "_save_training_state",
      [](const std::string& folder, nb::handle module, optim::Optimizer* optimizer, const Generators& generators,
         int64_t step, int64_t epoch, int64_t samples, std::optional<double> best_metric, int64_t accumulated,
         const Documents& documents, int64_t keep_last) {
        const Location where = here();
        const io::TrainingRun run = run_of(module, optimizer, generators);
        const io::RunState state = state_of(step, epoch, samples, best_metric, accumulated, documents);
        const WithoutGil others;
        return io::save_training_state(folder, run, state, {keep_last}, where).string();
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
      nb::arg(), nb::arg());
  m.def(
      "_load_training_state",
      [](const std::string& folder, nb::handle module, optim::Optimizer* optimizer, const Generators& generators,
         bool weights_only, const io::Mapping* mapping) {
        return numbers_of(
            io::load_training_state(folder, run_of(module, optimizer, generators), {weights_only, mapping}, here()));
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("_read_run_state", [](const std::string& folder) { return numbers_of(io::read_run_state(folder, here())); });
  m.def("_training_states", [](const std::string& folder) {
    std::vector<std::string> paths;
    for (const io::Path& path : io::training_states(folder)) paths.push_back(path.string());
    return paths;
  });
  nb::class_<io::BackgroundSaver>(m, "_BackgroundSaver")
      .def("__init__", [](io::BackgroundSaver* self, const std::string& folder,
                          int64_t keep_last) { new (self) io::BackgroundSaver(folder, {keep_last}, here()); })
      .def(
          "save",
          [](io::BackgroundSaver& self, nb::handle module, optim::Optimizer* optimizer, const Generators& generators,
             int64_t step, int64_t epoch, int64_t samples, std::optional<double> best_metric, int64_t accumulated,
             const Documents& documents) {
            const Location where = here();
            const io::TrainingRun run = run_of(module, optimizer, generators);
            const io::RunState state = state_of(step, epoch, samples, best_metric, accumulated, documents);
            const WithoutGil others;
            self.save(run, state, where);
          },
          nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
          nb::arg())
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
      .def(
          "save",
          [](Checkpoints& self, bool is_best, nb::handle module, optim::Optimizer* optimizer,
             const Generators& generators, int64_t step, int64_t epoch, int64_t samples,
             std::optional<double> best_metric, int64_t accumulated, const Documents& documents) {
            const Location where = here();
            const io::TrainingRun run = run_of(module, optimizer, generators);
            const io::RunState state = state_of(step, epoch, samples, best_metric, accumulated, documents);
            const WithoutGil others;
            self.save(run, state, is_best, where);
          },
          nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
          nb::arg(), nb::arg())
      .def("wait", [](Checkpoints& self) {
        const Location where = here();
        const WithoutGil others;
        self.wait(where);
      });
}

}  // namespace weft::python
