#include "../training_state.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "../files/atomic_folder-inl.hpp"
#include "../json/document-inl.hpp"
#include "../file.hpp"
#include "../json/hex-inl.hpp"
#include "../json/json_tree-inl.hpp"
#include "../mapping.hpp"
#include "../model.hpp"
#include "../files/naming_file-inl.hpp"
#include "check_weights-inl.hpp"
#include "optimizer_state-inl.hpp"
#include "../safetensors.hpp"
#include "../files/folder-inl.hpp"
#include "training_snapshot-inl.hpp"
#include "../../hooks/detail/text.hpp"
#include "../../ops/random.hpp"

namespace weft::io {

namespace {

constexpr const char *saving = "save_training_state", *loading = "load_training_state", *marker = "COMPLETE",
                     *weights_file = "model.safetensors", *optimizer_file = "optimizer.safetensors",
                     *masters_file = "masters.safetensors", *gradients_file = "gradients.safetensors",
                     *tensors_file = "tensors.safetensors", *numbers_file = "trainer.json",
                     *generators_file = "rng-0.json", *tree_file = "model.json", *optimizer_name = "weft.optimizer";
const std::string step_prefix = "step-", json_suffix = ".json";
constexpr int format_version = 1;

[[noreturn]] void refuse(const std::string& problem, Location where) {
  raise<ValueError>({.op = saving, .problem = problem}, where);
}

// ---- JSON -----------------------------------------------------------------------------------------------------------

std::string state_text(const std::vector<uint8_t>& bytes) {
  return hex_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::optional<std::vector<uint8_t>> state_in(const std::string& text) {
  const auto bytes = bytes_of_hex(text);
  return bytes ? std::optional(std::vector<uint8_t>(bytes->begin(), bytes->end())) : std::nullopt;
}

JsonTree with_version() {
  JsonTree json;
  json["format_version"] = JsonTree::of(int64_t{format_version});
  return json;
}

std::string text_of(const JsonTree& json) { return json_text(json, saving, Location::none()); }

std::string numbers_of(const RunState& state) {
  JsonTree json = with_version();
  json["step"] = JsonTree::of(state.step);
  json["epoch"] = JsonTree::of(state.epoch);
  json["samples"] = JsonTree::of(state.samples);
  json["accumulated"] = JsonTree::of(state.accumulated);
  if (state.best_metric) json["best_metric"] = JsonTree::of(*state.best_metric);
  return text_of(json);
}

// Runs `f` on what a file of JSON holds.
template <class F>
void reading(const Path& path, Location where, F&& f) {
  naming_file<FormatError>(path, loading, [&] {
    const JsonTree json = parse_json(read_file(path, loading, where), loading, where);
    f(JsonPlace(json, loading, where));
  });
}

// ---- names ----------------------------------------------------------------------------------------------------------

// The files of JSON that are no documents of the user's.
constexpr std::string_view own_files[] = {numbers_file, generators_file, tree_file};

std::optional<int64_t> step_in(const std::string& name) {
  int64_t step = 0;
  if (!name.starts_with(step_prefix) || name.size() < step_prefix.size() + 8) return {};
  const char *from = name.data() + step_prefix.size(), *to = name.data() + name.size();
  if (const auto [end, error] = std::from_chars(from, to, step); end != to || error != std::errc() || *from == '-') {
    return {};
  }
  return step;
}

bool is_complete(const Path& state) { return size_of_file(state / marker) >= 0; }

// ---- saving ---------------------------------------------------------------------------------------------------------

void check_state(const RunState& state, Location where) {
  for (const int64_t n : {state.step, state.epoch, state.samples, state.accumulated}) {
    if (n < 0) refuse("steps, epochs and samples are not negative", where);
  }
  for (const auto& [name, text] : state.documents) {
    check_document(name, text, own_files, saving, where);
  }
}

std::string generators_of(const TrainingRun& run, Location where) {
  JsonTree json = with_version();
  JsonTree& devices = json["devices"] = JsonTree::object();
  for (const Device device : devices_with_generators()) {
    devices[device.name()] = JsonTree::of(state_text(get_rng_state(device, where).to_vector<uint8_t>(where)));
  }
  JsonTree& named = json["named"] = JsonTree::object();
  for (const auto& [name, generator] : run.generators) {
    named[name] = JsonTree::of(state_text(generator->state_bytes()));
  }
  return text_of(json);
}

// The masters by the module's names.
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

TrainingSnapshot snapshot_of(const TrainingRun& run, const RunState& state, Location where) {
  check_state(state, where);
  TrainingSnapshot s;
  s.step = state.step;
  s.weights = run.module.state_dict();
  if (run.optimizer != nullptr) {
    s.optimizer = named_state(run.module, *run.optimizer, run.masters, saving, where);
    s.optimizer_name = run.optimizer->name();
  }
  if (run.masters != nullptr) s.masters = named_masters(run, saving, where);
  s.tensors = state.tensors;
  if (state.accumulated > 0) {
    for (const auto& [name, parameter] : run.module.named_parameters()) {
      if (parameter.grad().defined()) s.gradients.emplace(name, parameter.grad());
    }
  }
  s.has_gradients = state.accumulated > 0;
  s.texts.emplace(numbers_file, numbers_of(state));
  s.texts.emplace(generators_file, generators_of(run, where));
  s.texts.emplace(tree_file, to_json(run.module, nn::ModuleRegistry::standard(), where));
  for (const auto& [name, text] : state.documents) s.texts.emplace(document_file(name), text);
  return s;
}

namespace {

// The states beyond the newest `keep`, older than the one just written.
void remove_older(const Path& folder, int64_t step, int64_t keep) {
  std::vector<Path> older;
  for (const Path& state : training_states(folder)) {
    const std::string& path = state.string();
    if (step_in(path.substr(path.rfind('/') + 1)).value_or(step) < step) older.push_back(state);
  }
  const int64_t surplus = std::ssize(older) + 1 - keep;
  for (int64_t i = 0; i < surplus && i < std::ssize(older); ++i) remove_folder(older[static_cast<size_t>(i)]);
}

}  // namespace

Path write_snapshot(const Path& folder, const TrainingSnapshot& s, SaveStateOptions options, Location where) {
  const Path path = folder / fmt::format("{}{:08}", step_prefix, s.step);
  AtomicFolder whole(path, saving, where);
  const Path& inside = whole.temporary();
  JsonTree complete = with_version();
  complete["files"] = JsonTree::object();
  const auto told = [&](const std::string& name) {
    complete["files"][name] = JsonTree::of(size_of_file(inside / name));
  };
  save_file(s.weights, inside / weights_file, {{"format", "pt"}}, {}, where);
  told(weights_file);
  if (!s.optimizer_name.empty()) {
    save_file(s.optimizer, inside / optimizer_file, {{optimizer_name, s.optimizer_name}}, {}, where);
    told(optimizer_file);
  }
  const auto save = [&](const TensorMap& tensors, const char* name) {
    save_file(tensors, inside / name, {}, {}, where);
    told(name);
  };
  if (!s.masters.empty()) save(s.masters, masters_file);
  if (s.has_gradients) save(s.gradients, gradients_file);
  if (!s.tensors.empty()) save(s.tensors, tensors_file);
  for (const auto& [name, text] : s.texts) {
    write_file(inside / name, text, saving, where);
    told(name);
  }
  write_file(inside / marker, text_of(complete), saving, where);
  whole.commit();
  if (options.keep_last > 0) remove_older(folder, s.step, options.keep_last);
  return path;
}

Path save_training_state(const Path& folder, const TrainingRun& run, const RunState& state, SaveStateOptions options,
                         Location where) {
  const TrainingSnapshot snapshot = snapshot_of(run, state, where);
  make_folder(folder, saving, where);
  return write_snapshot(folder, snapshot, options, where);
}

// ---- loading --------------------------------------------------------------------------------------------------------

std::vector<Path> training_states(const Path& folder) {
  std::vector<std::pair<int64_t, Path>> found;
  for (const std::string& name : names_in(folder.string())) {
    const std::optional<int64_t> step = step_in(name);
    if (step && is_complete(folder / name)) found.emplace_back(*step, folder / name);
  }
  std::ranges::sort(found, {}, [](const auto& state) { return state.first; });
  std::vector<Path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

namespace {

[[noreturn]] void raise_damaged(const std::string& problem, Location where) {
  raise<FormatError>({.op = loading, .problem = problem}, where);
}

bool is_whole(const Path& state) {
  try {
    const JsonTree json = parse_json(read_file(state / marker, loading, Location::none()), loading, Location::none());
    bool whole = true;
    JsonPlace(json, loading, Location::none()).at("files").each_field([&](const std::string& name, const JsonPlace& n) {
      whole = whole && name.find('/') == name.npos && size_of_file(state / name) == n.integer();
    });
    return whole;
  } catch (const Error&) {
    return false;
  }
}

// Runs `f` on the newest state of a folder; where that is damaged the error names the last one that is whole.
template <class F>
auto with_way_around(const Path& folder, F&& f) {
  try {
    return f();
  } catch (const FormatError& error) {
    const std::vector<Path> states = training_states(folder);
    if (is_complete(folder) || states.empty()) throw;
    std::string advice = "; no other state in the folder is whole";
    for (auto state = states.rbegin() + 1; state != states.rend(); ++state) {
      if (!is_whole(*state)) continue;
      advice = fmt::format("; {} is whole: load that folder, or remove {}", state->string(), states.back().string());
      break;
    }
    std::string text = error.what();
    text.insert(std::min(text.find('\n'), text.size()), advice);
    throw FormatError(text);
  }
}

// The state's folder, and the files it is made of, each there and whole.
struct Opened {
  Path path;
  std::vector<std::string> files;

  Opened(const Path& folder, Location where) : path(folder) {
    if (!is_complete(folder)) {
      const std::vector<Path> states = training_states(folder);
      if (states.empty()) {
        raise<IoError>({.op = loading, .problem = fmt::format("{} holds no complete state", folder.string())}, where);
      }
      path = states.back();
    }
    reading(path / marker, where, [&](const JsonPlace& json) {
      if (const int64_t version = json.at("format_version").integer(); version > format_version) {
        raise<VersionError>({.op = loading,
                             .problem = fmt::format("{} is of version {}, newer than this program's {}", path.string(),
                                                    version, format_version)},
                            where);
      }
      json.at("files").each_field([&](const std::string& name, const JsonPlace& size) {
        if (name.find('/') != name.npos) raise_damaged(fmt::format("\"{}\" is no file's name", name), where);
        const int64_t found = size_of_file(path / name), wanted = size.integer();
        if (found < 0) raise_damaged(fmt::format("{} is missing", (path / name).string()), where);
        if (found != wanted) {
          raise_damaged(fmt::format("{} has {} bytes of {}", (path / name).string(), found, wanted), where);
        }
        files.push_back(name);
      });
    });
  }
  bool has(const std::string& name) const { return std::ranges::find(files, name) != files.end(); }
};

RunState run_state_in(const Opened& opened, Location where) {
  RunState state;
  reading(opened.path / numbers_file, where, [&](const JsonPlace& json) {
    state.step = json.at("step").integer();
    state.epoch = json.at("epoch").integer();
    state.samples = json.at("samples").integer();
    state.accumulated = json.at("accumulated").integer();
    if (json.has("best_metric")) state.best_metric = json.at("best_metric").number();
  });
  for (const std::string& name : opened.files) {
    if (!name.ends_with(json_suffix) || std::ranges::find(own_files, name) != std::end(own_files)) continue;
    state.documents.emplace(name.substr(0, name.size() - json_suffix.size()),
                            read_file(opened.path / name, loading, where));
  }
  if (opened.has(tensors_file)) state.tensors = load_file(opened.path / tensors_file, {}, {}, where);
  return state;
}

// What is set once all of it was found fit.
struct Generators {
  std::vector<std::pair<Device, std::vector<uint8_t>>> devices;
  std::vector<std::pair<Generator*, std::vector<uint8_t>>> named;

  Generators(const Opened& opened, const TrainingRun& run, Location where) {
    const Path path = opened.path / generators_file;
    const auto state_of = [&](const std::string& name, const JsonPlace& text) {
      const auto bytes = state_in(text.text());
      if (!bytes) raise_damaged(fmt::format("{}: \"{}\" is no state of a generator", path.string(), name), where);
      naming_file<FormatError>(path, loading, [&] { Generator().set_state_bytes(*bytes, where); });
      return *bytes;
    };
    reading(path, where, [&](const JsonPlace& json) {
      json.at("devices").each_field([&](const std::string& name, const JsonPlace& text) {
        devices.emplace_back(Device(std::string_view(name), where), state_of(name, text));
      });
      for (const auto& [name, generator] : run.generators) {
        if (!json.at("named").has(name)) {
          raise_damaged(fmt::format("{} has no generator \"{}\"", path.string(), name), where);
        }
        named.emplace_back(generator, state_of(name, json.at("named").at(name)));
      }
    });
  }
  void set(Location where) const {
    for (const auto& [device, bytes] : devices) default_generator(device).set_state_bytes(bytes, where);
    for (const auto& [generator, bytes] : named) generator->set_state_bytes(bytes, where);
  }
};

// What a file of the state holds, under this module's names.
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

optim::Optimizer::StateDict optimizer_state_in(const Opened& opened, const TrainingRun& run, const Mapping* mapping,
                                               Location where) {
  if (!opened.has(optimizer_file)) {
    raise<ValueError>({.op = loading,
                       .problem = fmt::format("{} holds no optimizer's state", opened.path.string()),
                       .remedy = "load the weights alone: {.weights_only = true}"},
                      where);
  }
  const Path path = opened.path / optimizer_file;
  const Metadata metadata = SafeFile::open(path, where).metadata();
  const auto found = metadata.find(optimizer_name);
  const std::string by = found == metadata.end() ? "" : found->second;
  const TensorMap state = mapped_file(path, mapping, where, &Mapping::apply_to_optimizer);
  return state_in_file({path, loading, "", by}, state, run.module, *run.optimizer, run.masters, where);
}

// Every parameter with its gradient, undefined where there is none.
using Gradients = std::vector<std::pair<Tensor, Tensor>>;

// A mapping takes them as it takes what an optimizer keeps: not every weight has one.
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

// By number, as the masters name them; what a mapping leaves keeps its value.
std::map<std::string, Tensor> masters_in(const Opened& opened, const TrainingRun& run, const Mapping* mapping,
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

Gradients gradients_in(const Opened& opened, const TrainingRun& run, const Mapping* mapping, Location where) {
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

// Loads an optimizer's state, which is what it was again unless it is kept.
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
    } catch (const std::exception&) {  // the error that is on its way is the one to tell
    }
  }
  OptimizerLoad(const OptimizerLoad&) = delete;
  void keep() { optimizer_ = nullptr; }

 private:
  optim::Optimizer* optimizer_;
  optim::Optimizer::StateDict before_;
};

RunState load_newest(const Path& folder, const TrainingRun& run, LoadStateOptions options, Location where) {
  const Opened opened(folder, where);
  const RunState state = run_state_in(opened, where);
  if (opened.has(tree_file)) {
    const Path tree = opened.path / tree_file;
    naming_file<FormatError>(tree, loading, [&] { (void)read_model(read_file(tree, loading, where), where); });
  }
  const Path path = opened.path / weights_file;
  const TensorMap weights = weights_in(path, run, options.mapping, where);
  check_weights(run.module, weights, path, loading,
                fmt::format("module.load_state_dict(io::load_file(\"{}\"), false) loads what fits", path.string()),
                where);
  if (options.weights_only) {
    run.module.load_state_dict(weights, true, where);
    return state;
  }
  const Generators generators(opened, run, where);
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
  return with_way_around(folder, [&] { return load_newest(folder, run, options, where); });
}

RunState read_run_state(const Path& folder, Location where) {
  return with_way_around(folder, [&] { return run_state_in(Opened(folder, where), where); });
}

}  // namespace weft::io
