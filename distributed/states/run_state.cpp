#include "../detail/run_state.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "../../tensor/warning.hpp"
#include "../detail/optimizer_state.hpp"

namespace weft::distributed::detail {

namespace {

const std::string group_prefix = "group.", master_suffix = ".master";

io::TensorStore opened_state(const io::Path& folder, Location where) {
  return io::open_state_dict(folder, io::parts_id, where);
}

const optim::Optimizer& optimizer_of(const ShardedRun& run) {
  return run.optimizer != nullptr ? *run.optimizer : run.sharded_optimizer->optimizer();
}

}  // namespace

std::vector<OptimizerPart> parts_of(const ShardedRun& run) {
  const Places places(run.parameters, run.model);
  std::vector<OptimizerPart> out;
  for (const Tensor& p : run.optimizer->parameters()) {
    const std::string& name = places.name(p);
    if (!run.model.contains(name)) {
      raise<ValueError>({.problem = fmt::format("the parameter \"{}\" is none of the model's", name)});
    }
    out.push_back({name, p.detach(), places.whole(p)});
  }
  return out;
}

io::ShardedState optimizer_parts(const ShardedRun& run) {
  if (run.optimizer != nullptr) return optimizer_state(*run.optimizer, parts_of(run));
  return run.sharded_optimizer->sharded_state(run.parameters, run.model);
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
  return read_optimizer_state(*run.optimizer, parts_of(run), folder, {.id = io::parts_id}, where).values;
}

void fill_masters(const ShardedRun& run, const io::Path& path, bool asked_for, Location where) {
  io::ShardedState masters;
  const io::ShardedState all = optimizer_parts(run);
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

/// State for a generator on another number of ranks: the saved one if all ranks had the same, else a subsequence of
/// this rank's own, after all numbers that any rank drew.
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
        .problem =
            fmt::format("{} ranks saved the state that {} load: generators that differed continue by seed and rank",
                        saved_by, group.size())});
}

void RankGenerators::set() const {
  for (const auto& [device, state] : devices_) default_generator(device).set_state(state);
  for (const auto& [generator, state] : named_) generator->set_state(state);
}

}  // namespace weft::distributed::detail
