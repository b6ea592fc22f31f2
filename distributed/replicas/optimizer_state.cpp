#include "../detail/optimizer_state.hpp"

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/error.hpp"

namespace weft::distributed::detail {

Places::Places(std::span<const nn::NamedTensor> names, const io::ShardedState& places) {
  for (const auto& [name, tensor] : names) {
    const auto found = places.find(name);
    names_.emplace(tensor.impl(), name);
    if (found != places.end()) places_.emplace(tensor.impl(), found->second);
  }
}

const std::string& Places::name(const Tensor& parameter) const {
  const auto found = names_.find(parameter.impl());
  if (found != names_.end()) return found->second;
  raise<ValueError>({.problem = "a parameter has no name", .details = parameter.shape().text()});
}

io::ShardedTensor Places::part(const Tensor& values, const Tensor& parameter, int64_t begin) const {
  io::ShardedTensor out = whole(parameter);
  if (!out.flattened_range) out.local_shape = parameter.shape();
  out.flattened_range = io::FlatRange{begin, begin + values.numel()};
  out.local = values.detach();
  return out;
}

io::ShardedTensor Places::whole(const Tensor& parameter) const {
  const auto found = places_.find(parameter.impl());
  if (found != places_.end()) return found->second;
  return {parameter.detach(), parameter.shape(), Dims::filled(parameter.dim(), 0)};
}

bool is_option(const std::string& key) { return key.starts_with("group.") && !key.ends_with(".params"); }

namespace {

io::ShardedTensor alike(const Tensor& x) { return {x, x.shape(), Dims::filled(x.dim(), 0)}; }

bool is_whole(const io::ShardedTensor& place) {
  return !place.flattened_range && place.local.shape() == place.global_shape;
}

/// A value of the optimizer's state for a sharded parameter.
io::ShardedTensor shard_of(const OptimizerPart& part, const Tensor& value, const std::string& key) {
  if (value.dim() == 0 && part.values.dim() > 0) return alike(value);
  if (!(value.shape() == part.values.shape())) {
    if (is_whole(part.place)) return alike(value);
    raise<ValueError>({.problem = fmt::format("{} is of another shape than its parameter, which is in parts", key),
                       .details = value.shape().text()});
  }
  io::ShardedTensor out = part.place;
  out.local = out.flattened_range ? value.view({-1}) : value;
  return out;
}

}  // namespace

io::ShardedState optimizer_state(const optim::Optimizer& optimizer, std::span<const OptimizerPart> parts) {
  const optim::Optimizer::StateDict values = optimizer.state_dict();
  io::ShardedState out;
  for (const auto& [key, value] : values) {
    if (is_option(key)) out.emplace(key, alike(value));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string prefix = fmt::format("{}.", i), name = parts[i].name + ".";
    for (auto entry = values.lower_bound(prefix); entry != values.end() && entry->first.starts_with(prefix); ++entry) {
      const std::string key = name + entry->first.substr(prefix.size());
      out.emplace(key, shard_of(parts[i], entry->second, key));
    }
    if (parts[i].is_master) out.emplace(name + "master", shard_of(parts[i], parts[i].values.detach(), name + "master"));
  }
  return out;
}

OptimizerValues read_optimizer_state(const optim::Optimizer& optimizer, std::span<const OptimizerPart> parts,
                                     const io::Path& folder, const io::LoadStateDictOptions& options, Location where) {
  const io::TensorStore store = io::open_state_dict(folder, options.id, where);
  io::ShardedState wanted;
  optim::Optimizer::StateDict values;
  for (const auto& [key, value] : optimizer.state_dict()) {
    if (!is_option(key)) continue;
    values.emplace(key, zeros_like(value));
    wanted.emplace(key, alike(values.at(key)));
  }
  std::vector<std::pair<Tensor, Tensor>> masters;
  for (size_t i = 0; i < parts.size(); ++i) {
    const OptimizerPart& part = parts[i];
    const std::string prefix = fmt::format("{}.", i), name = part.name + ".";
    const auto& entries = store.entries();
    for (auto entry = entries.lower_bound(name); entry != entries.end() && entry->first.starts_with(name); ++entry) {
      const std::string& key = entry->first;
      const std::string rest = key.substr(name.size());
      const TensorOptions like{part.values.dtype(), part.values.device()};
      if (rest == "master") {
        if (!part.is_master) continue;
        masters.emplace_back(part.values.detach(), zeros(part.values.shape(), like));
        wanted.emplace(key, shard_of(part, masters.back().second, key));
      } else if (optimizer.keeps(rest)) {
        const Dims& stored = entry->second.shape;
        const bool is_scalar = stored.empty();
        const bool is_alike = stored == part.place.global_shape;
        const Tensor value = is_scalar ? zeros({}, {.dtype = entry->second.dtype})
                                       : zeros(is_alike ? part.values.shape() : stored, like);
        values.emplace(prefix + rest, value);
        wanted.emplace(key, shard_of(part, value, key));
      }
    }
  }
  io::load_state_dict(wanted, folder, options, where);
  return {std::move(values), std::move(masters)};
}

bool load_optimizer_state(optim::Optimizer& optimizer, std::span<const OptimizerPart> parts, const io::Path& folder,
                          const io::LoadStateDictOptions& options, Location where) {
  const OptimizerValues read = read_optimizer_state(optimizer, parts, folder, options, where);
  optimizer.load_state_dict(read.values, where);
  const NoGradGuard unrecorded;
  for (const auto& [values, master] : read.masters) values.copy_(master);
  return !read.masters.empty();
}

}  // namespace weft::distributed::detail
