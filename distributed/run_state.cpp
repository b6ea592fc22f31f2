#include "detail/run_state.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../ops/create.hpp"
#include "../tensor/error.hpp"
#include "../tensor/warning.hpp"

namespace weft::distributed::detail {

namespace {

const std::string group_prefix = "group.", master_suffix = ".master";

bool is_option(const std::string& key) { return key.starts_with(group_prefix); }

/// Numbers of parameters differ between the stages of a pipeline.
bool is_count(const std::string& key) { return is_option(key) && key.ends_with(".params"); }

bool is_whole(const io::ShardedTensor& part) { return part.local.shape() == part.global_shape; }

io::ShardedTensor alike(const Tensor& value) { return {value, value.shape(), Dims::filled(value.dim(), 0)}; }

std::string name_of(const Tensor& parameter, const ShardedRun& run) {
  const auto found = std::ranges::find_if(
      run.parameters, [&](const nn::NamedTensor& named) { return named.tensor.impl() == parameter.impl(); });
  if (found == run.parameters.end()) raise<ValueError>({.problem = "a parameter of the optimizer has no name"});
  if (run.model.contains(found->name)) return found->name;
  raise<ValueError>({.problem = fmt::format("the parameter \"{}\" is none of the model's", found->name)});
}

/// The optimizer's parameters by number.
std::vector<std::string> names_of(const ShardedRun& run) {
  std::vector<std::string> out;
  for (const Tensor& parameter : run.optimizer->parameters()) out.push_back(name_of(parameter, run));
  return out;
}

/// A value that lies as its parameter does.
io::ShardedTensor placed(const Tensor& value, const std::string& key, const io::ShardedTensor& parameter) {
  if (value.dim() == 0 || is_whole(parameter)) return alike(value);
  if (value.shape() == parameter.local.shape()) {
    io::ShardedTensor part = parameter;
    part.local = value;
    return part;
  }
  raise<ValueError>({.problem = fmt::format("\"{}\" is of {}, its parameter's part of {}", key, value.shape().text(),
                                            parameter.local.shape().text()),
                     .remedy = "of parameters in parts, state is saved that has their shapes"});
}

io::ShardedState parts_of_replica(const ShardedRun& run) {
  io::ShardedState out;
  const std::vector<std::string> names = names_of(run);
  for (const auto& [key, value] : run.optimizer->state_dict()) {
    if (is_count(key)) continue;
    if (is_option(key)) {
      out.emplace(key, alike(value));
      continue;
    }
    const size_t dot = key.find('.');
    const std::string& name = names[std::stoul(key.substr(0, dot))];
    const std::string own = name + key.substr(dot);
    out.emplace(own, placed(value, own, run.model.at(name)));
  }
  return out;
}

/// A part of a part is a part of the whole.
io::ShardedState parts_of_parts(const ShardedRun& run) {
  io::ShardedState out;
  for (auto& [key, state] : run.sharded_optimizer->sharded_state(run.parameters)) {
    const auto parameter = run.model.find(key.substr(0, key.rfind('.')));
    io::ShardedTensor part = state;
    if (parameter != run.model.end() && part.flattened_range && !is_whole(parameter->second)) {
      part.local_shape = parameter->second.local.shape();
      part.global_shape = parameter->second.global_shape;
      part.global_offset = parameter->second.global_offset;
    }
    out.emplace(key, std::move(part));
  }
  return out;
}

io::TensorStore opened_state(const io::Path& folder, Location where) {
  return io::open_state_dict(folder, io::parts_id, where);
}

const optim::Optimizer& optimizer_of(const ShardedRun& run) {
  return run.optimizer != nullptr ? *run.optimizer : run.sharded_optimizer->optimizer();
}

}  // namespace

io::ShardedState optimizer_parts(const ShardedRun& run) {
  return run.optimizer != nullptr ? parts_of_replica(run) : parts_of_parts(run);
}

void check_optimizer(const ShardedRun& run, const io::Path& folder, Location where) {
  const optim::Optimizer& optimizer = optimizer_of(run);
  std::set<std::string> names;
  for (const nn::NamedTensor& named : run.parameters) names.insert(named.name);
  size_t groups = 0;
  const io::TensorStore store = opened_state(folder, where);
  while (store.entries().contains(fmt::format("{}{}.lr", group_prefix, groups))) ++groups;
  if (groups != optimizer.groups().size()) {
    raise<ValueError>({.problem = fmt::format("{} has {} groups of parameters, the optimizer {}", folder.string(),
                                              groups, optimizer.groups().size())});
  }
  for (const auto& [key, info] : store.entries()) {
    const size_t dot = key.rfind('.');
    const bool is_own = !is_option(key) && dot != key.npos && names.contains(key.substr(0, dot));
    if (!is_own || key.ends_with(master_suffix) || optimizer.keeps(key.substr(dot + 1))) continue;
    raise<ValueError>({.problem = fmt::format("{} is of another optimizer: it holds \"{}\", which {} does not keep",
                                              folder.string(), key, optimizer.name()),
                       .remedy = "use the optimizer that saved it, or load the weights alone"});
  }
}

optim::Optimizer::StateDict optimizer_values(const ShardedRun& run, const io::Path& folder, Location where) {
  const io::TensorStore store = opened_state(folder, where);
  optim::Optimizer::StateDict values;
  io::ShardedState wanted;
  for (const auto& [key, value] : run.optimizer->state_dict()) {
    if (!is_option(key) || is_count(key)) continue;
    values.emplace(key, zeros_like(value));
    wanted.emplace(key, alike(values.at(key)));
  }
  const std::vector<std::string> names = names_of(run);
  const std::vector<Tensor> parameters = run.optimizer->parameters();
  for (size_t number = 0; number < names.size(); ++number) {
    const io::ShardedTensor& parameter = run.model.at(names[number]);
    const std::string prefix = names[number] + ".";
    for (const auto& [key, info] : store.entries()) {
      if (!key.starts_with(prefix) || !run.optimizer->keeps(key.substr(prefix.size()))) continue;
      const bool is_part = !is_whole(parameter) && info.shape == parameter.global_shape;
      const Dims& shape = is_part ? parameter.local.shape() : info.shape;
      const Device device = info.shape.empty() ? Device() : parameters[number].device();
      const Tensor value = zeros(shape, {.dtype = info.dtype, .device = device});
      values.emplace(fmt::format("{}.{}", number, key.substr(prefix.size())), value);
      wanted.emplace(key, placed(value, key, parameter));
    }
  }
  io::load_state_dict(wanted, folder, {.id = io::parts_id}, where);
  return values;
}

io::Mapping own_parts(const ShardedRun& run, const io::Path& folder, Location where) {
  std::string statements;
  const io::TensorStore store = opened_state(folder, where);
  for (const auto& [key, info] : store.entries()) {
    const auto found = run.model.find(key.substr(0, key.rfind('.')));
    if (found == run.model.end() || is_whole(found->second) || !(info.shape == found->second.global_shape)) continue;
    const Dims &global = found->second.global_shape, &local = found->second.local.shape();
    for (int d = 0; d < global.size(); ++d) {
      if (local[d] == global[d]) continue;
      const int64_t begin = found->second.global_offset[d];
      if (local[d] == 0 || global[d] % local[d] != 0 || begin % local[d] != 0) {
        raise<ValueError>({.problem = fmt::format("\"{}\" lies in parts of several sizes", found->first),
                           .remedy = "an optimizer in parts is loaded where the parts are alike"});
      }
      std::vector<std::string> pieces;
      for (int64_t i = 0; i < global[d] / local[d]; ++i) {
        pieces.push_back(i == begin / local[d] ? fmt::format("\"{}\"", key) : fmt::format("\"{}/{}/{}\"", key, d, i));
      }
      statements += fmt::format("\"{}\" -> {}, axis={}\n", key, fmt::join(pieces, ", "), d);
    }
  }
  return io::Mapping::parse(statements, where);
}

void fill_masters(const ShardedRun& run, const io::Path& path, bool asked_for, Location where) {
  io::ShardedState masters;
  const io::ShardedState all = parts_of_parts(run);
  std::set<std::string> saved;
  if (!asked_for) {
    const io::TensorStore store = opened_state(path / io::optimizer_parts, where);
    for (const auto& [key, info] : store.entries()) saved.insert(key);
  }
  for (const auto& [key, part] : all) {
    if (!key.ends_with(master_suffix) || saved.contains(key)) continue;
    masters.emplace(key.substr(0, key.size() - master_suffix.size()), part);
  }
  if (masters.empty()) return;
  io::load_state_dict(masters, path / io::model_parts, {.id = io::parts_id}, where);
  if (asked_for) return;
  warn({.op = "load_training_state",
        .problem = fmt::format("{} holds no master weights of {} parameters, which become the 16-bit ones",
                               path.string(), masters.size())});
}

// ---- generators -----------------------------------------------------------------------------------------------------

namespace {

GeneratorState state_of(const std::vector<uint8_t>& bytes, Location where) {
  Generator generator;
  generator.set_state_bytes(bytes, where);
  return generator.state();
}

/// Where a generator goes on that stood so on the ranks that saved it: alike where it did, else in the sequence of this
/// rank's number, behind all that was drawn.
GeneratorState derived(const std::vector<GeneratorState>& saved, int rank) {
  const auto is_first = [&](const GeneratorState& state) { return state == saved.front(); };
  if (std::ranges::all_of(saved, is_first)) return saved.front();
  GeneratorState out = saved.front();
  for (const GeneratorState& state : saved) {
    out.subsequence = std::max(out.subsequence, state.subsequence);
    out.offset = std::max(out.offset, state.offset);
  }
  out.subsequence += 1 + static_cast<uint64_t>(rank);
  return out;
}

}  // namespace

RankGenerators::RankGenerators(const io::OpenedFolder& opened, const std::map<std::string, Generator*>& named,
                               const Group& group, Location where) {
  const int saved_by = opened.ranks();
  const bool is_same = saved_by == group.size();
  std::map<std::string, std::vector<GeneratorState>> of_devices;
  std::map<Generator*, std::vector<GeneratorState>> of_named;
  for (int rank = is_same ? group.rank() : 0; rank < (is_same ? group.rank() + 1 : saved_by); ++rank) {
    const io::SavedGenerators saved(opened.path / io::generators_file(rank), named, where);
    for (const auto& [device, bytes] : saved.devices) of_devices[device.name()].push_back(state_of(bytes, where));
    for (const auto& [generator, bytes] : saved.named) of_named[generator].push_back(state_of(bytes, where));
  }
  bool differ = false;
  const auto next = [&](const std::vector<GeneratorState>& states) {
    const GeneratorState state = is_same ? states.front() : derived(states, group.rank());
    differ |= !(state == states.front());
    return state;
  };
  for (const auto& [name, states] : of_devices) devices_.emplace_back(Device(std::string_view(name)), next(states));
  for (const auto& [generator, states] : of_named) named_.emplace_back(generator, next(states));
  if (!differ || group.rank() != 0) return;
  warn({.op = "load_training_state",
        .problem = fmt::format("{} ranks saved what {} load: generators that differed go on by seed and rank", saved_by,
                               group.size())});
}

void RankGenerators::set() const {
  for (const auto& [device, state] : devices_) default_generator(device).set_state(state);
  for (const auto& [generator, state] : named_) generator->set_state(state);
}

}  // namespace weft::distributed::detail
