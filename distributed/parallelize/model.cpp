#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../nn/dropout.hpp"
#include "../../nn/moe.hpp"
#include "../../nn/sharded_layer-inl.hpp"
#include "../../nn/module_state-inl.hpp"
#include "../../nn/pattern-inl.hpp"
#include "../../ops/create.hpp"
#include "../collectives.hpp"
#include "../detail/flat.hpp"
#include "../detail/member.hpp"
#include "../detail/sequence_mixture.hpp"
#include "../detail/tensor_set.hpp"
#include "model-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

namespace {

constexpr const char* op = "parallelize";

Mesh with_all_dimensions(const Mesh& mesh) {
  Dims shape = mesh.shape();
  std::vector<std::string> names(mesh.names().begin(), mesh.names().end());
  const std::vector<std::string> known{"dp", "pp", "ep", "tp"};
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    raise_value("dimension of the plan's mesh", "dp, pp, ep or tp", in_quotes(name));
  }
  if (std::ssize(names) != shape.size()) raise<ValueError>({.problem = "the mesh's dimensions have no names"});
  for (const std::string& name : known) {
    if (std::ranges::find(names, name) != names.end()) continue;
    names.push_back(name);
    shape.push_back(1);
  }
  return Mesh(shape, names, mesh.group());
}

/// Ranks that differ from this one along "dp" and "ep" only.
Group replicas_in(const Mesh& mesh) {
  int color = 0;
  for (const char* name : {"pp", "tp"}) {
    const int d = mesh.dim(name);
    color = color * static_cast<int>(mesh.shape()[d]) + static_cast<int>(mesh.coordinate()[d]);
  }
  return mesh.group().split(color);
}

/// First layer of each stage, and the number of layers.
std::vector<size_t> bounds_of(const ParallelPlan& plan, int stages, const nn::Module& model, size_t layers) {
  std::vector<size_t> bounds{0};
  if (stages > 1 && static_cast<int>(layers) < stages) {
    raise_value("model", fmt::format("an nn::Sequential of at least {} layers, one for each stage", stages), layers);
  }
  if (plan.cuts.empty()) {
    for (int s = 1; s < stages; ++s) bounds.push_back(static_cast<size_t>(s) * layers / static_cast<size_t>(stages));
  } else {
    const auto children = model.named_children();
    for (const std::string& cut : plan.cuts) {
      const auto found = std::ranges::find(children, cut, &std::pair<std::string, nn::Module>::first);
      if (found == children.end()) raise<ValueError>({.problem = fmt::format("no layer is named '{}'", cut)});
      bounds.push_back(static_cast<size_t>(found - children.begin()));
    }
  }
  const bool ascend = std::ranges::adjacent_find(bounds, std::greater_equal<>()) == bounds.end();
  if (std::ssize(bounds) != stages || !ascend) {
    raise<ValueError>({.problem = fmt::format("{} stages are cut at {} layers, in their order", stages, stages - 1)});
  }
  bounds.push_back(layers);
  return bounds;
}

/// Makes the random numbers of a dropout's calls differ between ranks.
void drop_other_elements(const nn::Module& module, int index) {
  nn::Module m = module;
  const auto draws = std::make_shared<std::optional<nn::detail::ShardRngScope>>();
  m.register_forward_pre_hook([=](const nn::ForwardEvent& e) { draws->emplace(index, e.input().device()); });
  m.register_forward_hook([=](const nn::ForwardEvent&) { draws->reset(); });
}

void work_on_sequence_parts(const nn::Module& module, const Group& group) {
  for (const Tensor& p : module.parameters()) {
    if (p.requires_grad()) p.register_hook([group](const Tensor& g) { return all_reduce(g, group); });
  }
  for (const nn::Module& m : module.modules()) {
    if (nn::detail::is_of(m, TypeId::of<nn::Dropout>())) drop_other_elements(m, group.rank());
  }
}

void go_on_with_sequence_parts(const nn::Module& module, const Group& group) {
  nn::Module m = module;
  m.register_forward_hook(
      [group](const nn::ForwardEvent& e) { return scatter_to_tensor_parallel(e.output(), group, -2); });
}

/// Applies a split of the plan to a module.
struct Doing {
  const nn::Module& module;
  const Group& group;
  const Group& experts;
  const Group& replicas;
  bool sequence_parallel;
  /// Whether the module's input is a shard of the sequence.
  bool on_sequence_parts;

  template <class Options>
  Options on_group(Options options) const {
    options.group = group;
    options.sequence_parallel = sequence_parallel;
    return options;
  }
  void operator()(const ColumnParallelOptions& o) const { cut_columns(module, on_group(o)); }
  void operator()(const RowParallelOptions& o) const { cut_rows(module, on_group(o)); }
  void operator()(const VocabParallelOptions& o) const { cut_vocabulary(module, on_group(o)); }
  void operator()(const HeadParallelOptions& o) const { cut_heads(module, on_group(o)); }
  void operator()(ExpertParallelOptions o) const {
    o.group = experts;
    o.replicas = replicas;
    if (on_sequence_parts) o.sequence = group;
    cut_experts(module, o);
  }
  void operator()(const OnSequenceParts&) const {
    if (sequence_parallel) work_on_sequence_parts(module, group);
  }
  void operator()(const ToSequenceParts&) const {
    if (sequence_parallel) go_on_with_sequence_parts(module, group);
  }
};

using NamedModules = std::vector<std::pair<std::string, nn::Module>>;

const void* identity(const nn::Module& module) { return &nn::detail::StateAccess::state(module); }

/// Mixtures of experts whose input is a shard of the sequence.
std::vector<nn::Module> mixtures_on_sequence_parts(const ParallelPlan& plan, const NamedModules& modules) {
  std::vector<nn::Module> out;
  for (const ModuleSplit& split : plan.splits) {
    if (!std::holds_alternative<OnSequenceParts>(split.how)) continue;
    const nn::detail::Pattern pattern(op, split.pattern, Location::none());
    for (const auto& [name, module] : modules) {
      if (!pattern.finds(name)) continue;
      for (const nn::Module& inner : module.modules()) {
        if (nn::detail::is_of(inner, TypeId::of<nn::MoE>())) out.push_back(inner);
      }
    }
  }
  return out;
}

/// Descends into lists of modules, which are not called themselves.
void add_units(const nn::Module& module, std::vector<nn::Module>& out) {
  const bool is_list = module.class_name() == "ModuleList" || module.class_name() == "Sequential";
  if (!is_list) {
    if (!module.parameters().empty()) out.push_back(module);
    return;
  }
  for (const nn::Module& child : module.children()) add_units(child, out);
}

}  // namespace

ParallelModel::State::State(ParallelLayers layers_, ParallelPlan plan_)
    : layers(std::move(layers_)),
      plan(std::move(plan_)),
      mesh(with_all_dimensions(plan.mesh)),
      replicas_(replicas_in(mesh)) {
  bounds = bounds_of(plan, pp().size() * plan.chunks, layers.model.module, layers.layers.size());
  share_out();
  apply_all();
}

std::pair<size_t, size_t> ParallelModel::State::chunk(int c) const {
  const auto stage = static_cast<size_t>(c * pp().size() + pp().rank());
  return {bounds[stage], bounds[stage + 1]};
}

std::vector<nn::Module> ParallelModel::State::own_layers() const {
  if (bounds.size() == 2) return {layers.model.module};
  std::vector<nn::Module> out;
  for (int c = 0; c < plan.chunks; ++c) {
    for (size_t i = chunk(c).first; i < chunk(c).second; ++i) out.push_back(layers.layers[i].module);
  }
  return out;
}

std::vector<nn::Module> ParallelModel::State::units() const {
  std::vector<nn::Module> out;
  for (const nn::Module& layer : own_layers()) {
    if (!layer.same_as(layers.model.module)) add_units(layer, out);
    else
      for (const nn::Module& child : layer.children()) add_units(child, out);
  }
  return out;
}

/// Broadcasts rank 0's values to every rank, then frees parameters of other stages.
void ParallelModel::State::share_out() {
  const NoGradGuard unrecorded;
  std::vector<Tensor> all = layers.model.module.parameters();
  std::ranges::copy(layers.model.module.buffers(), std::back_inserter(all));
  detail::check_alike(all, mesh.group());
  detail::make_alike(all, mesh.group());

  std::map<const TensorImpl*, std::set<int>> holders;
  for (size_t s = 0; s + 1 < bounds.size() && bounds.size() > 2; ++s) {
    for (size_t i = bounds[s]; i < bounds[s + 1]; ++i) {
      for (const Tensor& p : layers.layers[i].module.parameters()) {
        holders[p.impl()].insert(static_cast<int>(s) % pp().size());
      }
    }
  }
  for (const auto& [name, p] : layers.model.module.named_parameters()) {
    const std::set<int>& ranks = holders[p.impl()];
    const bool is_own = bounds.size() == 2 || ranks.contains(pp().rank());
    if (is_own) parameters.push_back({name, p});
    if (ranks.size() > 1 && p.requires_grad()) {
      shared.push_back({is_own ? p : Tensor(), std::vector<int>(ranks.begin(), ranks.end())});
    }
    if (is_own) continue;
    const Tensor nan = full({}, std::numeric_limits<double>::quiet_NaN(), {p.dtype(), p.device()});
    p.set_grad({});
    nn::detail::replace_memory(p, nan.expand(p.shape()), Location::none());
  }
  detail::TensorSet own;
  for (const nn::Module& layer : own_layers()) {
    for (const Tensor& b : layer.buffers()) own.insert(b);
  }
  const nn::StateDict saved = layers.model.module.state_dict();
  for (const auto& named : layers.model.module.named_buffers()) {
    if (own.contains(named.tensor) && saved.contains(named.name)) buffers.push_back(named);
  }
}

void ParallelModel::State::apply_all() {
  std::set<const void*> mine;
  for (const nn::Module& layer : own_layers()) {
    for (const nn::Module& inner : layer.modules()) mine.insert(identity(inner));
  }
  NamedModules own;
  for (const auto& named : layers.model.module.named_modules()) {
    if (mine.contains(identity(named.second))) own.push_back(named);
  }
  std::vector<nn::Module> mixtures;
  if (plan.sequence_parallel && tp().size() > 1) mixtures = mixtures_on_sequence_parts(plan, own);
  for (const ModuleSplit& split : plan.splits) apply(split, own, mixtures);
  for (const nn::Module& mixture : mixtures) {
    if (nn::detail::sharding_of(mixture) == nullptr) detail::join_router_losses(mixture, tp(), Location::none());
  }
  detail::TensorSet cut;
  for (const auto& [name, module] : own) {
    if (nn::detail::sharding_of(module) == nullptr) continue;
    const bool has_experts = nn::detail::is_of(module, TypeId::of<nn::MoE>());
    for (const auto& [within, p] : module.named_parameters()) {
      if (!nn::detail::shard_dim_of(module, within)) continue;
      if (has_experts) experts.push_back(p);
      else cut.insert(p);
    }
  }
  for (const auto& [name, p] : parameters) {
    if (!cut.contains(p)) whole_on_all.push_back(p);
  }
}

void ParallelModel::State::apply(const ModuleSplit& split, const NamedModules& own,
                                 const std::vector<nn::Module>& mixtures) {
  const nn::detail::Pattern pattern(op, split.pattern, Location::none());
  const auto finds = [&](const auto& named) { return pattern.finds(named.first); };
  const auto all = layers.model.module.named_modules();
  if (std::ranges::none_of(all, finds)) {
    raise<ValueError>({.problem = fmt::format("\"{}\" finds no module", split.pattern)});
  }
  for (const auto& named : own) {
    if (!finds(named)) continue;
    const nn::Module& module = named.second;
    const auto is_same = [&](const nn::Module& mixture) { return mixture.same_as(module); };
    const bool on_sequence_parts = std::ranges::any_of(mixtures, is_same);
    std::visit(Doing{module, tp(), ep(), dp(), plan.sequence_parallel, on_sequence_parts}, split.how);
  }
}

ParallelModel::ParallelModel(ParallelLayers layers, ParallelPlan plan)
    : state_(Shared<State>::make(std::move(layers), std::move(plan))) {}

ParallelModel parallelize(ParallelLayers layers, ParallelPlan plan, Location where) {
  const CallScope call(op, where);
  if (plan.micro_batches < 1 || plan.chunks < 1 || plan.shard_stage < 0 || plan.shard_stage > 3) {
    raise<ValueError>({.problem = fmt::format("a plan of {} micro-batches, {} chunks and shard_stage {}",
                                              plan.micro_batches, plan.chunks, plan.shard_stage)});
  }
  plan.mesh.group().member().check_member();
  return {std::move(layers), std::move(plan)};
}

const Group& ParallelModel::data_parallel() const { return state_->replicas(); }
const Group& ParallelModel::tensor_parallel() const { return state_->tp(); }
const Group& ParallelModel::pipeline() const { return state_->pp(); }

std::vector<Tensor> ParallelModel::parameters() const {
  std::vector<Tensor> out;
  for (const auto& [name, p] : state_->parameters) out.push_back(p);
  return out;
}
std::vector<nn::NamedTensor> ParallelModel::named_parameters() const { return state_->parameters; }

std::vector<std::pair<std::string, nn::Module>> ParallelModel::named_children() const {
  const std::vector<nn::Module> own = state_->own_layers();
  auto children = state_->layers.model.module.named_children();
  if (state_->bounds.size() == 2) return children;
  std::erase_if(children, [&](const auto& child) {
    return std::ranges::none_of(own, [&](const nn::Module& layer) { return layer.same_as(child.second); });
  });
  return children;
}

Tensor ParallelModel::operator()(const Tensor& x, Location where) const {
  if (state_->bounds.size() == 2) return state_->layers.model.call(x);
  raise<ValueError>({.op = "ParallelModel", .problem = "this rank has a stage of the model alone"}, where);
}

}  // namespace weft::distributed
