// Restoring order: files are read and compared; then the optimizer, which keeps its old tensors; then the saved
// parts, each with a copy of its state; then the module, which was found to fit. So a failure restores the former
// state without a copy of the model.
#include "../training_state.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../files/atomic_folder-inl.hpp"
#include "../json/document-inl.hpp"
#include "../file.hpp"
#include "../mapping.hpp"
#include "../model.hpp"
#include "../files/naming_file-inl.hpp"
#include "check_weights-inl.hpp"
#include "optimizer_state-inl.hpp"
#include "../safetensors.hpp"
#include "../files/folder-inl.hpp"
#include "state_folder-inl.hpp"
#include "training_snapshot-inl.hpp"
#include "../../hooks/detail/text.hpp"

namespace weft::io {

namespace {

constexpr const char *saving = "save_training_state", *loading = "load_training_state",
                     *weights_file = "model.safetensors", *optimizer_file = "optimizer.safetensors",
                     *masters_file = "masters.safetensors", *gradients_file = "gradients.safetensors",
                     *tensors_file = "tensors.safetensors", *optimizer_name = "weft.optimizer";

// ---- saving ---------------------------------------------------------------------------------------------------------

TensorMap named_masters(const TrainingRun& run, const char* op, Location where) {
  const std::vector<std::string> names = names_of_masters(run.module, *run.masters);
  TensorMap out;
  for (const auto& [number, master] : run.masters->state_dict()) {
    const std::string& name = names[std::stoul(number)];
    if (name.empty()) {
      raise<ValueError>({.op = op, .problem = fmt::format("master weight {} is of no parameter of the module", number)},
                        where);
    }
    out.emplace(name, master);
  }
  return out;
}

}  // namespace

TrainingSnapshot moment_of(const TrainingRun& run, const RunState& state, Location where) {
  TrainingSnapshot s;
  s.step = state.step;
  s.weights = run.module.state_dict();
  if (run.optimizer != nullptr) {
    s.optimizer = named_state(run.module, *run.optimizer, run.masters, saving, where);
    s.optimizer_name = run.optimizer->name();
  }
  if (run.masters != nullptr) s.masters = named_masters(run, saving, where);
  if (state.accumulated > 0) {
    for (const auto& [name, parameter] : run.module.named_parameters()) {
      if (parameter.grad().defined()) s.gradients.emplace(name, parameter.grad());
    }
  }
  s.has_gradients = state.accumulated > 0;
  s.texts.emplace(generators_file(0), generators_text(run.generators, where));
  return s;
}

void complete(TrainingSnapshot& s, const TrainingRun& run, const RunState& state, Location where) {
  check_state(state, where);
  s.tensors = state.tensors;
  s.texts.emplace(numbers_file, text_of(numbers_of(state)));
  s.texts.emplace(tree_file, to_json(run.module, nn::ModuleRegistry::standard(), where));
  for (const auto& [name, text] : state.documents) s.texts.emplace(document_file(name), text);
}

TrainingSnapshot snapshot_of(const TrainingRun& run, const RunState& state, Location where) {
  check_state(state, where);
  TrainingSnapshot s = moment_of(run, state, where);
  complete(s, run, state, where);
  return s;
}

Path write_snapshot(const Path& folder, const TrainingSnapshot& s, SaveStateOptions options, Location where) {
  const Path path = folder / state_name(s.step);
  AtomicFolder whole(path, saving, where);
  const Path& inside = whole.temporary();
  std::vector<std::string> files;
  save_file(s.weights, inside / weights_file, {{"format", "pt"}}, {}, where);
  files.push_back(weights_file);
  if (!s.optimizer_name.empty()) {
    save_file(s.optimizer, inside / optimizer_file, {{optimizer_name, s.optimizer_name}}, {}, where);
    files.push_back(optimizer_file);
  }
  const auto save = [&](const TensorMap& tensors, const char* name) {
    save_file(tensors, inside / name, {}, {}, where);
    files.push_back(name);
  };
  if (!s.masters.empty()) save(s.masters, masters_file);
  if (s.has_gradients) save(s.gradients, gradients_file);
  if (!s.tensors.empty()) save(s.tensors, tensors_file);
  for (const auto& [name, text] : s.texts) {
    write_file(inside / name, text, saving, where);
    files.push_back(name);
  }
  write_marker(inside, files, where);
  whole.commit();
  if (options.keep_last > 0) remove_older_states(folder, s.step, options.keep_last);
  return path;
}

Path save_training_state(const Path& folder, const TrainingRun& run, const RunState& state, SaveStateOptions options,
                         Location where) {
  const TrainingSnapshot snapshot = snapshot_of(run, state, where);
  make_folder(folder, saving, where);
  return write_snapshot(folder, snapshot, options, where);
}

// ---- loading --------------------------------------------------------------------------------------------------------

namespace {

std::string saved_by(const Path& path, Location where) {
  const Metadata metadata = SafeFile::open(path, where).metadata();
  const auto found = metadata.find(optimizer_name);
  return found == metadata.end() ? "" : found->second;
}

// Returns the tensors of a file, mapped to this module's names.
TensorMap mapped_file(const Path& path, const Mapping* mapping, Location where,
                      TensorStore (Mapping::*apply)(const TensorStore&, Location) const = &Mapping::apply) {
  if (mapping == nullptr) return load_file(path, {}, {}, where);
  return (mapping->*apply)(TensorStore(SafeFile::open(path, where), where), where).tensors({}, where);
}

TensorMap weights_in(const Path& path, const TrainingRun& run, const Mapping* mapping, Location where) {
  TensorMap weights = mapped_file(path, mapping, where);
  if (mapping == nullptr) return weights;
  for (const auto& [name, own] : run.module.state_dict()) {
    if (mapping->leaves(name)) weights.emplace(name, own);
  }
  return weights;
}

optim::Optimizer::StateDict optimizer_state_in(const OpenedFolder& opened, const TrainingRun& run,
                                               const Mapping* mapping, Location where) {
  if (!opened.has(optimizer_file)) {
    raise<ValueError>({.op = loading,
                       .problem = fmt::format("{} holds no optimizer's state", opened.path.string()),
                       .remedy = "load the weights alone: {.weights_only = true}"},
                      where);
  }
  const Path path = opened.path / optimizer_file;
  const std::string by = saved_by(path, where);
  const TensorMap state = mapped_file(path, mapping, where, &Mapping::apply_to_optimizer);
  return state_in_file({path, loading, "", by}, state, run.module, *run.optimizer, run.masters, where);
}

using Gradients = std::vector<std::pair<Tensor, Tensor>>;

// Maps like optimizer state, since some weights may lack an entry.
TensorMap mapped_some(const Path& path, const Mapping* mapping, Location where) {
  const TensorMap saved = load_file(path, {}, {}, where);
  if (mapping == nullptr) return saved;
  const std::string field = ".some";
  TensorMap kept, out;
  for (const auto& [name, tensor] : saved) kept.emplace(name + field, tensor);
  for (auto& [name, tensor] : mapping->apply_to_optimizer(TensorStore(kept, where), where).tensors({}, where)) {
    out.emplace(name.substr(0, name.size() - field.size()), tensor);
  }
  return out;
}

// By master index. Weights that the mapping excludes keep their values.
std::map<std::string, Tensor> masters_in(const OpenedFolder& opened, const TrainingRun& run, const Mapping* mapping,
                                         Location where) {
  std::map<std::string, Tensor> values = run.masters->state_dict();
  if (values.empty()) return values;
  if (!opened.has(masters_file)) {
    raise<ValueError>({.op = loading,
                       .problem = fmt::format("{} holds no master weights", opened.path.string()),
                       .remedy = "load the weights alone, {.weights_only = true}, and make the masters of them"},
                      where);
  }
  const Path path = opened.path / masters_file;
  TensorMap saved = mapped_some(path, mapping, where);
  const std::vector<std::string> names = names_of_masters(run.module, *run.masters);
  for (auto& [number, value] : values) {
    const std::string& name = names[std::stoul(number)];
    const auto found = saved.find(name);
    if (found == saved.end() && mapping != nullptr) continue;
    if (found == saved.end()) raise_damaged(fmt::format("{} lacks \"{}\"", path.string(), name), where);
    if (!(found->second.shape() == value.shape())) {
      raise<ShapeError>({.op = loading,
                         .problem = fmt::format("{}: \"{}\" has another shape than its parameter", path.string(), name),
                         .details = found->second.shape().text() + " for " + value.shape().text()},
                        where);
    }
    value = found->second;
  }
  return values;
}

Gradients gradients_in(const OpenedFolder& opened, const TrainingRun& run, const Mapping* mapping, Location where) {
  const Path path = opened.path / gradients_file;
  const TensorMap saved = mapped_some(path, mapping, where);
  Gradients gradients;
  size_t used = 0;
  for (const auto& [name, parameter] : run.module.named_parameters()) {
    const auto found = saved.find(name);
    if (found == saved.end()) {
      gradients.emplace_back(parameter, Tensor());
      continue;
    }
    const Tensor gradient = mapping == nullptr ? found->second : found->second.to(parameter.dtype(), where);
    if (!(gradient.shape() == parameter.shape()) || gradient.dtype() != parameter.dtype()) {
      raise_damaged(fmt::format("{}: \"{}\" is no gradient of the module's", path.string(), name), where);
    }
    gradients.emplace_back(parameter, gradient.to(parameter.device(), where).clone(where));
    ++used;
  }
  if (used != saved.size()) raise_damaged(fmt::format("{} is of another module", path.string()), where);
  return gradients;
}

// Loads an optimizer's state; the destructor restores the old state unless keep() was called.
class OptimizerLoad {
 public:
  OptimizerLoad(optim::Optimizer& optimizer, const optim::Optimizer::StateDict& values, Location where)
      : optimizer_(&optimizer), before_(optimizer.state_dict()) {
    optimizer.load_state_dict(values, where);
  }
  ~OptimizerLoad() {
    if (optimizer_ == nullptr) return;
    try {
      optimizer_->load_state_dict(before_, Location::none());
    } catch (const std::exception&) {  // the original error is reported instead
    }
  }
  OptimizerLoad(const OptimizerLoad&) = delete;
  void keep() { optimizer_ = nullptr; }

 private:
  optim::Optimizer* optimizer_;
  optim::Optimizer::StateDict before_;
};

RunState load_newest(const Path& folder, const TrainingRun& run, LoadStateOptions options, Location where) {
  const OpenedFolder opened(folder, where);
  if (opened.is_in_parts()) {
    raise<ValueError>({.op = loading,
                       .problem = fmt::format("{} is in parts, as ranks saved it", opened.path.string()),
                       .remedy = "distributed::load_training_state loads it, on one rank too"},
                      where);
  }
  const RunState state = run_state_in(opened, where);
  if (opened.has(tree_file)) {
    const Path tree = opened.path / tree_file;
    naming_file<FormatError>(tree, loading, [&] { (void)read_model(read_file(tree, loading, where), where); });
  }
  const Path path = opened.path / weights_file;
  const TensorMap weights = weights_in(path, run, options.mapping, where);
  check_weights(
      run.module, weights, path, loading,
      fmt::format("module.load_state_dict(io::load_file(\"{}\"), false) loads the tensors that fit", path.string()),
      where);
  if (options.weights_only) {
    run.module.load_state_dict(weights, true, where);
    return state;
  }
  const SavedGenerators generators(opened.path / generators_file(0), run.generators, where);
  const Gradients gradients =
      opened.has(gradients_file) ? gradients_in(opened, run, options.mapping, where) : Gradients();
  std::map<std::string, Tensor> masters;
  if (run.masters != nullptr) masters = masters_in(opened, run, options.mapping, where);
  std::optional<OptimizerLoad> optimizer;
  if (run.optimizer != nullptr) {
    const auto values = optimizer_state_in(opened, run, options.mapping, where);
    naming_file<ShapeError>(path, loading, [&] { optimizer.emplace(*run.optimizer, values, where); });
  }
  if (options.restore_others) options.restore_others();
  run.module.load_state_dict(weights, true, where);
  if (optimizer) optimizer->keep();
  if (run.masters != nullptr) run.masters->load_state_dict(masters, where);
  for (const auto& [parameter, gradient] : gradients) parameter.set_grad(gradient, where);
  generators.set(where);
  return state;
}

}  // namespace

RunState load_training_state(const Path& folder, const TrainingRun& run, LoadStateOptions options, Location where) {
  if (options.weights_only && options.restore_others) {
    raise<ValueError>({.op = loading,
                       .problem = "restore_others is set together with weights_only, which restores nothing else",
                       .remedy = "leave one of them out; code after the call runs once the weights are loaded"},
                      where);
  }
  return read_checked(loading, where, [&] {
    RunState state;
    with_way_around(folder, [&] { state = load_newest(folder, run, options, where); });
    return state;
  });
}

TrainingSnapshot read_snapshot(const Path& state, Location where) {
  const OpenedFolder opened(state, where);
  const auto read = [&](const char* name) {
    return opened.has(name) ? load_file(opened.path / name, {}, {}, where) : TensorMap();
  };
  TrainingSnapshot s;
  s.weights = read(weights_file), s.optimizer = read(optimizer_file), s.masters = read(masters_file);
  s.gradients = read(gradients_file), s.tensors = read(tensors_file);
  s.has_gradients = opened.has(gradients_file);
  if (opened.has(optimizer_file)) s.optimizer_name = saved_by(opened.path / optimizer_file, where);
  for (const std::string& name : opened.files) {
    if (name.ends_with(".json")) s.texts.emplace(name, read_file(opened.path / name, loading, where));
  }
  return s;
}

RunState read_run_state(const Path& folder, Location where) {
  RunState state;
  with_way_around(folder, [&] { state = run_state_in(OpenedFolder(folder, where), where); });
  return state;
}

}  // namespace weft::io
