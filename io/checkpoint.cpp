#include <weft/io/checkpoint.hpp>

#include <unordered_map>

#include <fmt/format.h>

#include <weft/ops/random.hpp>

namespace weft::io {

namespace {

const std::string model_prefix = "model.", optimizer_prefix = "optimizer.", generator_key = "rng.cpu";

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
  if (key.starts_with("group.")) return key;
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

optim::Optimizer::StateDict numbered(const TensorMap& state, const std::vector<std::string>& names) {
  std::unordered_map<std::string, size_t> numbers;
  for (size_t i = 0; i < names.size(); ++i) numbers.emplace(names[i], i);
  optim::Optimizer::StateDict out;
  for (const auto& [key, tensor] : state) {
    const size_t dot = key.rfind('.');
    const auto found = dot == std::string::npos ? numbers.end() : numbers.find(key.substr(0, dot));
    out.emplace(found == numbers.end() ? key : std::to_string(found->second) + key.substr(dot), tensor);
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
  all.emplace(generator_key, get_rng_state({}, where));
  save_file(all, path, metadata, where);
}

Metadata load_checkpoint(const Path& path, nn::Module& module, optim::Optimizer* optimizer, Location where) {
  const SafeFile file = SafeFile::open(path, where);
  const TensorMap all = load_file(path, {}, {}, where);
  const TensorMap state = with_prefix(all, optimizer_prefix);
  std::vector<std::string> names;
  if (optimizer != nullptr) {
    names = parameter_names(module, *optimizer, where);
    if (state.empty()) {
      raise<ValueError>(
          {.op = "load_checkpoint", .problem = "the file holds no optimizer state", .details = path.string()}, where);
    }
  }
  module.load_state_dict(with_prefix(all, model_prefix), true, where);
  if (optimizer != nullptr) optimizer->load_state_dict(numbered(state, names), where);
  if (const auto found = all.find(generator_key); found != all.end()) set_rng_state(found->second, {}, where);
  return file.metadata();
}

Metadata checkpoint_metadata(const Path& path, Location where) { return SafeFile::open(path, where).metadata(); }

}  // namespace weft::io
