// Models on a mesh of ranks for Python; weft/distributed/parallel.py gives them their shape.
#include "../distributed/parallelize.hpp"

#include "../distributed/gather_history.hpp"
#include "../distributed/sharded_state.hpp"
#include "../distributed/training_state.hpp"

#include "module_object.hpp"
#include "run_state.hpp"

namespace weft::python {

namespace {

using namespace distributed;

/// callable(tensors...) on any thread.
template <class... Tensors>
Tensor call(const Callback& callable, const Tensors&... tensors) {
  const WithGil gil;
  const Ref arguments(PyTuple_Pack(sizeof...(tensors), Ref(wrap(tensors)).get()...));
  const Ref result(PyObject_Call(callable.get(), arguments.get(), nullptr));
  if (result.get() == nullptr) carry_error();
  if (!is_tensor(result.get())) throw_type_error("result: expected a Tensor, got " + type_name(result.get()));
  return tensor_of(result.get());
}

/// float(callable(tensor)) on any thread.
double number(const Callback& callable, const Tensor& tensor) {
  const WithGil gil;
  const Ref result(PyObject_CallOneArg(callable.get(), Ref(wrap(tensor)).get()));
  return PyFloat_AsDouble(Ref(PyNumber_Float(result.get())).get());
}

ParallelLayers::Layer layer_of(nb::handle module) {
  return {state_of(module).module, [callable = Callback(module)](const Tensor& x) { return call(callable, x); }};
}

/// ("columns", options) and the like.
ModuleSplit split_of(const std::string& pattern, const std::string& how,
                     const std::map<std::string, int64_t>& options) {
  const auto option = [&](const char* name, int64_t otherwise) {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : found->second;
  };
  if (how == "columns") {
    return {pattern,
            ColumnParallelOptions{.gather_output = option("gather_output", 0) != 0, .blocks = option("blocks", 1)}};
  }
  if (how == "rows") return {pattern, RowParallelOptions{.input_is_parallel = option("input_is_parallel", 1) != 0}};
  if (how == "vocabulary") return {pattern, VocabParallelOptions{}};
  if (how == "heads") return {pattern, HeadParallelOptions{}};
  if (how == "experts") return {pattern, ExpertParallelOptions{}};
  if (how == "sequence") return {pattern, OnSequenceParts{}};
  return {pattern, ToSequenceParts{}};
}

PipelineSchedule schedule_of(const std::string& name) {
  if (name == "1f1b") return PipelineSchedule::one_f_one_b;
  if (name == "gpipe") return PipelineSchedule::f_then_b;
  if (name == "interleaved1f1b") return PipelineSchedule::interleaved;
  if (name == "zerobubble") return PipelineSchedule::zero_bubble;
  throw_error(PyExc_ValueError,
              "schedule: expected '1F1B', 'GPipe', 'Interleaved1F1B' or 'ZeroBubble', got '" + name + "'");
}

using Split = std::tuple<std::string, std::string, std::map<std::string, int64_t>>;

ParallelModel parallelized(nb::handle model, const nb::list& layers, const Mesh& mesh, const std::vector<Split>& splits,
                           bool sequence_parallel, const std::vector<std::string>& cuts, const std::string& schedule,
                           int chunks, int micro_batches, int shard_stage, int64_t bucket_bytes) {
  ParallelLayers all{layer_of(model)};
  for (const nb::handle layer : layers) all.layers.push_back(layer_of(layer));
  ParallelPlan plan{.mesh = mesh,
                    .sequence_parallel = sequence_parallel,
                    .cuts = cuts,
                    .schedule = schedule_of(schedule),
                    .chunks = chunks,
                    .micro_batches = micro_batches,
                    .shard_stage = shard_stage,
                    .bucket_bytes = bucket_bytes};
  for (const auto& [pattern, how, options] : splits) plan.splits.push_back(split_of(pattern, how, options));
  return without_gil([&](Location where) { return parallelize(std::move(all), std::move(plan), where); });
}

nb::dict named(const std::vector<nn::NamedTensor>& tensors) {
  nb::dict out;
  for (const auto& [name, tensor] : tensors) out[name.c_str()] = tensor;
  return out;
}

}  // namespace

void bind_parallelize(nb::module_& m) {
  nb::class_<ParallelModel>(m, "ParallelModel")
      .def("data_parallel", &ParallelModel::data_parallel)
      .def("tensor_parallel", &ParallelModel::tensor_parallel)
      .def("pipeline", &ParallelModel::pipeline)
      .def("child_names",
           [](const ParallelModel& model) {
             std::vector<std::string> names;
             for (const auto& [name, child] : model.named_children()) names.push_back(name);
             return names;
           })
      .def("named_parameters", [](const ParallelModel& model) { return named(model.named_parameters()); });
  m.def("parallelize", parallelized);
  m.def("gather_history", [](const History& own, const Group& group) {
    return without_gil([&](Location where) { return gather_history(own, group, where); });
  });

  nb::class_<ShardedOptimizer::Whole>(m, "WholeParameters");
  nb::class_<ParallelTraining>(m, "ParallelTraining")
      .def(
          "backward",
          [](ParallelTraining& self, const Tensor& input, const Tensor& target, nb::handle loss, nb::handle weight) {
            const Callback callable(loss), weight_of(weight);
            ParallelWeight weighs;
            if (!weight.is_none()) weighs = [&](const Tensor& t) { return number(weight_of, t); };
            return without_gil([&](Location where) {
              return self.backward(
                  input, target, [&](const Tensor& y, const Tensor& t) { return call(callable, y, t); }, weighs, where);
            });
          },
          nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("clip_grad_norm",
           [](ParallelTraining& self, double max_norm) {
             return without_gil([&](Location where) { return self.clip_grad_norm(max_norm, where); });
           })
      .def("step", [](ParallelTraining& self) { without_gil([&](Location where) { self.step(where); }); })
      .def("zero_grad", [](ParallelTraining& self) { without_gil([&](Location) { self.zero_grad(); }); })
      .def("whole_parameters",
           [](const ParallelTraining& self) -> nb::object {
             auto whole = without_gil([&](Location) { return self.whole_parameters(); });
             return whole ? nb::cast(std::move(*whole)) : nb::none();
           })
      .def("optimizer", &ParallelTraining::optimizer, nb::rv_policy::reference_internal)
      .def("save",
           [](const ParallelTraining& self, const std::string& folder, const Group& group, std::optional<int64_t> id) {
             return without_gil([&](Location where) {
               return save_state_dict(self.sharded_state(where), folder, group, {.id = id}, where);
             });
           })
      .def(
          "save_run",
          [](const ParallelTraining& self, const std::string& folder, const RunFields& fields,
             const nb::dict& generators, const Group& group, int64_t keep_last, BackgroundSaver* saver) {
            ShardedRun run = self.run();
            run.generators = generators_of(generators);
            const io::RunState state = state_of(fields);
            return without_gil([&](Location where) {
              if (saver != nullptr) return saver->save(run, state, folder, {keep_last}, where).string();
              return save_training_state(folder, run, state, group, {keep_last}, where).string();
            });
          },
          nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("load_run",
           [](const ParallelTraining& self, const std::string& folder, const nb::dict& generators, const Group& group,
              bool weights_only) {
             ShardedRun run = self.run();
             run.generators = generators_of(generators);
             const auto load = [&](Location where) {
               return load_training_state(folder, run, group, {.weights_only = weights_only}, where);
             };
             return fields_of(without_gil(load));
           })
      .def("load", [](ParallelTraining& self, const std::string& folder, std::optional<int64_t> id) {
        without_gil([&](Location where) { self.load_sharded_state(folder, {.id = id}, where); });
      });
}

}  // namespace weft::python
