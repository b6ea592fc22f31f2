#include "checkpoint.hpp"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "../ops/random.hpp"

namespace weft::io {

namespace {

const std::string model_prefix = "model.", optimizer_prefix = "optimizer.", generator_prefix = "rng.",
                  group_prefix = "group.", optimizer_name = "weft.optimizer";

// The module's name of each of the optimizer's parameters, in its order.
std::vector<std::string> parameter_names(const nn::Module& module, const optim::Optimizer& optimizer, Location where) {
  std::unordered_map<const TensorImpl*, std::string> names;
  for (const auto& [name, tensor] : module.named_parameters()) names.emplace(tensor.impl(), name);
  std::vector<std::string> out;
  for (const Tensor& p : optimizer.parameters()) {
    const auto found = names.find(p.impl());
    if (found == names.end()) {
      raise<ValueError>(
          {.op = "checkpoint", .problem = fmt::format("parameter {} of the optimizer is not the module's", out.size())},
          where);
    }
    out.push_back(found->second);
  }
  return out;
}

// "3.exp_avg" with the parameter's name for its number; "group.0.lr" stays.
std::string named_key(const std::string& key, const std::vector<std::string>& names) {
  if (key.starts_with(group_prefix)) return key;
  const size_t dot = key.find('.');
  return names[std::stoul(key.substr(0, dot))] + key.substr(dot);
}

TensorMap with_prefix(const TensorMap& all, const std::string& prefix) {
  TensorMap out;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) out.emplace(name.substr(prefix.size()), tensor);
  }
  return out;
}

// The optimizer's own keys, with numbers for the parameters' names. ValueError, in words of the file, where it is not
// this optimizer's state.
class StateInFile {
 public:
  /// `saved_by` is the name of the optimizer that saved the state, empty where the file does not tell.
  StateInFile(const Path& path, const TensorMap& state, const std::string& saved_by, const optim::Optimizer& optimizer,
              const std::vector<std::string>& names, Location where)
      : path_(path), optimizer_(optimizer), where_(where) {
    std::unordered_map<std::string, size_t> numbers;
    for (size_t i = 0; i < names.size(); ++i) numbers.emplace(names[i], i);
    for (const auto& [key, tensor] : state) {
      const size_t dot = key.rfind('.');
      const auto found = dot == std::string::npos ? numbers.end() : numbers.find(key.substr(0, dot));
      if (found != numbers.end()) add(key, key.substr(dot + 1), found->second, tensor);
      else if (key.starts_with(group_prefix)) values.emplace(key, tensor);
      else refuse(fmt::format("holds \"{}\", which is of none of the optimizer's parameters", optimizer_prefix + key));
    }
    check_complete(names);
    // Without momentum SGD keeps nothing but rates, which would do for any optimizer.
    if (values.size() == optimizer.groups().size() && !saved_by.empty() && saved_by != optimizer.name()) {
      refuse(fmt::format("is of another optimizer: {}, not {}", saved_by, optimizer.name()));
    }
  }

  optim::Optimizer::StateDict values;

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    raise<ValueError>({.op = "load_checkpoint",
                       .problem = fmt::format("{} {}", path_.string(), problem),
                       .remedy = "use the optimizer and the groups that saved it, or load the weights alone: pass no "
                                 "optimizer"},
                      where_);
  }
  void add(const std::string& key, const std::string& field, size_t number, const Tensor& tensor) {
    const auto kept = optimizer_.state_names();
    if (field != "step" && std::ranges::find(kept, field) == kept.end()) {
      refuse(fmt::format("is of another optimizer: it holds \"{}\", which {} does not keep", optimizer_prefix + key,
                         optimizer_.name()));
    }
    values.emplace(fmt::format("{}.{}", number, field), tensor);
  }
  void check_complete(const std::vector<std::string>& names) const {
    for (size_t i = 0; i < names.size(); ++i) {
      if (!values.contains(fmt::format("{}.step", i))) continue;
      for (const std::string& field : optimizer_.state_names()) {
        if (values.contains(fmt::format("{}.{}", i, field))) continue;
        refuse(fmt::format("lacks \"{}{}.{}\", which {} needs", optimizer_prefix, names[i], field, optimizer_.name()));
      }
    }
    const size_t groups = optimizer_.groups().size();
    size_t found = 0;
    while (values.contains(fmt::format("{}{}.lr", group_prefix, found))) ++found;
    if (found != groups) refuse(fmt::format("has {} groups of parameters, the optimizer {}", found, groups));
  }

  const Path& path_;
  const optim::Optimizer& optimizer_;
  Location where_;
};

// Runs `f`; what it raises names the file.
template <class E, class F>
void naming_file(const Path& path, F&& f) {
  try {
    f();
  } catch (const E& error) {
    const std::string text = error.what();
    throw E(fmt::format("[load_checkpoint] {}: {}", path.string(),
                        text.substr(std::min(text.size(), text.find("] ") + 2))));
  }
}

void check_is_checkpoint(const Path& path, const TensorMap& all, const nn::Module& module, Location where) {
  const auto holds = [&](const std::string& prefix) {
    const auto first = all.lower_bound(prefix);
    return first != all.end() && first->first.starts_with(prefix);
  };
  if (holds(model_prefix) || module.state_dict().empty()) return;
  raise<ValueError>({.op = "load_checkpoint",
                     .problem = fmt::format(
                         "{} is no checkpoint: {}", path.string(),
                         all.empty() ? std::string("it holds no tensors")
                                     : fmt::format("it holds \"{}\", no \"{}…\"", all.begin()->first, model_prefix)),
                     .remedy = "weights alone are loaded by module.load_state_dict(io::load_file(path))"},
                    where);
}

// By the device's name behind the prefix. FormatError for a name or a state that is none.
std::vector<std::pair<Device, Tensor>> generators_in(const TensorMap& all, Location where) {
  std::vector<std::pair<Device, Tensor>> out;
  for (const auto& [name, state] : with_prefix(all, generator_prefix)) {
    const auto refuse = [&, &name = name] {
      raise<FormatError>({.op = "load_checkpoint",
                          .problem = fmt::format("\"{}{}\" is no state of a generator", generator_prefix, name)},
                         where);
    };
    if (state.dtype() != DType::u8 || state.dim() != 1) refuse();
    try {
      out.emplace_back(Device(std::string_view(name), where), state);
      Generator().set_state_bytes(state.to_vector<uint8_t>(where), where);
    } catch (const Error&) {
      refuse();
    }
  }
  return out;
}

}  // namespace

void save_checkpoint(const Path& path, const nn::Module& module, const optim::Optimizer* optimizer,
                     const Metadata& metadata, Location where) {
  TensorMap all;
  for (const auto& [name, tensor] : module.state_dict()) all.emplace(model_prefix + name, tensor);
  if (optimizer != nullptr) {
    const std::vector<std::string> names = parameter_names(module, *optimizer, where);
    for (const auto& [key, tensor] : optimizer->state_dict()) {
      all.emplace(optimizer_prefix + named_key(key, names), tensor);
    }
  }
  for (const Device device : devices_with_generators()) {
    all.emplace(generator_prefix + device.name(), get_rng_state(device, where));
  }
  Metadata told = metadata;
  if (optimizer != nullptr) told.emplace(optimizer_name, optimizer->name());
  save_file(all, path, told, where);
}

Metadata load_checkpoint(const Path& path, nn::Module& module, optim::Optimizer* optimizer, Location where) {
  const SafeFile file = SafeFile::open(path, where);
  const TensorMap all = load_file(path, {}, {}, where);
  check_is_checkpoint(path, all, module, where);
  const TensorMap weights = with_prefix(all, model_prefix), state = with_prefix(all, optimizer_prefix);
  std::vector<std::pair<Device, Tensor>> generators;
  naming_file<FormatError>(path, [&] { generators = generators_in(all, where); });
  const auto check_module = [&] { module.check_state_dict(weights, true, where); };
  naming_file<ShapeError>(path, [&] { naming_file<ValueError>(path, check_module); });
  if (optimizer != nullptr) {
    const std::vector<std::string> names = parameter_names(module, *optimizer, where);
    if (state.empty()) {
      raise<ValueError>({.op = "load_checkpoint",
                         .problem = fmt::format("{} holds no optimizer state", path.string()),
                         .remedy = "load the weights alone: pass no optimizer"},
                        where);
    }
    const auto saved_by = file.metadata().find(optimizer_name);
    const StateInFile found(path, state, saved_by == file.metadata().end() ? "" : saved_by->second, *optimizer, names,
                            where);
    naming_file<ShapeError>(path, [&] { optimizer->load_state_dict(found.values, where); });
  }
  module.load_state_dict(weights, true, where);
  for (const auto& [device, generator] : generators) set_rng_state(generator, device, where);
  return file.metadata();
}

Metadata checkpoint_metadata(const Path& path, Location where) { return SafeFile::open(path, where).metadata(); }

}  // namespace weft::io
