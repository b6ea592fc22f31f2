#include "../sharded_optimizer.hpp"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/pointwise.hpp"
#include "../../tensor/error.hpp"
#include "../collectives.hpp"
#include "../detail/buckets.hpp"
#include "../detail/clip.hpp"
#include "../detail/flat.hpp"
#include "../detail/optimizer_state.hpp"
#include "../detail/parameter_units.hpp"
#include "../detail/tensor_set.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

namespace {

/// Elements [begin, begin + size) of a parameter, which this rank updates.
struct Piece {
  size_t parameter;
  int64_t begin, size;
  /// A view of the parameter, or a separate master copy.
  Tensor values;
};

/// The range of a bucket's concatenated elements that this rank owns.
struct OwnPart {
  int64_t begin = 0, size = 0;
  std::vector<Piece> pieces = {};
  /// In stage 3, for parameters of modules: storage of these elements.
  Tensor kept = {};
};

bool is_narrow(const Tensor& t) { return t.dtype() == DType::f16 || t.dtype() == DType::bf16; }

int64_t count_of(const std::vector<Tensor>& tensors) {
  int64_t count = 0;
  for (const Tensor& t : tensors) count += t.numel();
  return count;
}

/// By parameter, the index of its module. Raises ValueError if one module contains another.
using Owners = std::unordered_map<const TensorImpl*, size_t>;
Owners owners_of(const std::vector<nn::Module>& modules) {
  for (const nn::Module& outer : modules) {
    for (const nn::Module& inner : outer.modules()) {
      const auto is_inner = [&](const nn::Module& m) { return m.same_as(inner) && !m.same_as(outer); };
      if (std::ranges::any_of(modules, is_inner)) raise<ValueError>({.problem = "a module is part of another one"});
    }
  }
  Owners owners;
  std::vector<const TensorImpl*> shared;
  for (size_t m = 0; m < modules.size(); ++m) {
    for (const Tensor& p : modules[m].parameters()) {
      if (!owners.emplace(p.impl(), m).second) shared.push_back(p.impl());
    }
  }
  // Parameters of several modules stay whole.
  for (const TensorImpl* p : shared) owners.erase(p);
  return owners;
}

/// Groups of ranks that have the same parameter.
class Sharers {
 public:
  explicit Sharers(const ShardedOptimizerOptions& options)
      : all_(options.group), of_experts_(options.experts ? options.experts->group : options.group) {
    if (options.experts) experts_ = detail::TensorSet(options.experts->parameters);
  }
  bool is_expert(const Tensor& parameter) const { return experts_.contains(parameter); }
  const Group& of(const Tensor& parameter) const { return is_expert(parameter) ? of_experts_ : all_; }

 private:
  Group all_, of_experts_;
  detail::TensorSet experts_;
};

/// Buckets of each optimizer group, separately for each module and for experts; parameters are numbered through all
/// groups.
std::vector<std::vector<size_t>> buckets_of_groups(const std::vector<std::vector<Tensor>>& groups, int64_t bytes,
                                                   const Sharers& sharers, const Owners& owners) {
  std::vector<std::vector<size_t>> out;
  size_t first = 0;
  for (const std::vector<Tensor>& group : groups) {
    // Backward computes the gradients of the last modules first.
    std::map<std::pair<int64_t, bool>, std::vector<size_t>, std::greater<>> by_module;
    for (size_t i = 0; i < group.size(); ++i) {
      const auto owner = owners.find(group[i].impl());
      const int64_t module = owner == owners.end() ? -1 : static_cast<int64_t>(owner->second);
      by_module[{module, sharers.is_expert(group[i])}].push_back(i);
    }
    for (const auto& [module, numbers] : by_module) {
      std::vector<Tensor> own;
      for (const size_t i : numbers) own.push_back(group[i]);
      for (std::vector<size_t> bucket : detail::buckets_of(own, bytes)) {
        for (size_t& number : bucket) number = first + numbers[number];
        out.push_back(std::move(bucket));
      }
    }
    first += group.size();
  }
  return out;
}

std::vector<std::vector<Tensor>> trained(const optim::Optimizer& optimizer) {
  std::vector<std::vector<Tensor>> groups;
  for (const optim::Group& group : optimizer.groups()) {
    groups.push_back(group.parameters);
    std::erase_if(groups.back(), [](const Tensor& p) { return !p.requires_grad(); });
  }
  return groups;
}

std::vector<Tensor> joined(const std::vector<std::vector<Tensor>>& groups) {
  std::vector<Tensor> all;
  for (const std::vector<Tensor>& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace

struct ShardedOptimizer::State {
  std::unique_ptr<optim::ElementwiseOptimizer> optimizer;
  ShardedOptimizerOptions options;
  Sharers sharers;
  std::vector<size_t> parameter_group;
  detail::GradientBuckets buckets;
  std::vector<OwnPart> own;
  detail::ParameterUnits units;
  /// Of buckets that were sent.
  std::vector<Work> sent = {};
  std::vector<bool> has_gradient = {};
  /// In stage 1, the sent buffers, which are reduced in place.
  std::vector<Tensor> means = {};
  bool is_reduced = false;
  /// For each parameter, whether any rank's backward reached it; and the means by bucket, until the optimizer takes
  /// them.
  std::vector<bool> is_reached = {};
  std::vector<Tensor> received = {};

  State(std::unique_ptr<optim::ElementwiseOptimizer> optimizer_, const ShardedOptimizerOptions& options_,
        const std::vector<std::vector<Tensor>>& groups, const Owners& owners, Location where)
      : optimizer(std::move(optimizer_)),
        options(options_),
        sharers(options),
        buckets(
            joined(groups), buckets_of_groups(groups, options.bucket_bytes, sharers, owners),
            [this](size_t bucket) { send(bucket); }, where) {
    for (size_t g = 0; g < groups.size(); ++g) parameter_group.insert(parameter_group.end(), groups[g].size(), g);
    std::vector<std::vector<Tensor>> pieces(groups.size());
    for (size_t b = 0; b < buckets.size(); ++b) {
      own.push_back(own_part(b, owners));
      for (const Piece& p : own[b].pieces) pieces[parameter_group[p.parameter]].push_back(p.values);
    }
    optimizer->replace_parameters(pieces, where);
    make_units(owners, where);
  }

  /// For each module: its trained parameters by bucket, and its frozen ones.
  void make_units(const Owners& owners, Location where) {
    const detail::TensorSet is_trained(buckets.parameters());
    for (size_t m = 0; m < options.modules.size(); ++m) {
      std::vector<detail::FlatParameters> flats;
      for (size_t b = 0; b < buckets.size(); ++b) {
        const std::vector<Tensor> members = buckets.members(b);
        const auto owner = owners.find(members[0].impl());
        if (owner != owners.end() && owner->second == m) flats.push_back({members, own[b].kept, group(b)});
      }
      std::vector<Tensor> frozen = options.modules[m].parameters();
      std::erase_if(frozen, [&](const Tensor& p) { return is_trained.contains(p) || !owners.contains(p.impl()); });
      for (const Tensor& p : frozen) flats.push_back(detail::flat_parameters({p}, sharers.of(p)));
      if (!flats.empty()) units.add(options.modules[m], std::move(flats), where);
    }
  }

  /// Ranks that have the parameters of a bucket.
  const Group& group(size_t bucket) const { return sharers.of(buckets.parameters()[buckets.numbers(bucket)[0]]); }

  OwnPart own_part(size_t bucket, const Owners& owners) const {
    const Group& ranks = group(bucket);
    const std::vector<Tensor> members = buckets.members(bucket);
    const int64_t count = count_of(members);
    OwnPart part{shard_begin(count, ranks.size(), ranks.rank()), shard_size(count, ranks.size(), ranks.rank())};
    if (owners.contains(members[0].impl())) part.kept = detail::flat_parameters(members, ranks).own;
    int64_t begin = 0;  // of the parameter in the bucket
    for (const size_t i : buckets.numbers(bucket)) {
      const Tensor& p = buckets.parameters()[i];
      const int64_t low = std::max(begin, part.begin), high = std::min(begin + p.numel(), part.begin + part.size);
      if (low < high) {
        Piece piece{i, low - begin, high - low, Tensor()};
        const Tensor elements = elements_of(part, piece, low);
        piece.values = (options.master_weights && is_narrow(p) ? elements.to(DType::f32) : elements).requires_grad_();
        part.pieces.push_back(std::move(piece));
      }
      begin += p.numel();
    }
    return part;
  }

  /// Storage of a piece's elements, which begin at `first` in the bucket.
  Tensor elements_of(const OwnPart& part, const Piece& piece, int64_t first) const {
    if (part.kept.defined()) return part.kept.narrow(0, first - part.begin, piece.size);
    return buckets.parameters()[piece.parameter].detach().view({-1}).narrow(0, piece.begin, piece.size);
  }
  /// Calls f(piece, its elements) for the pieces with separate master weights.
  template <class F>
  void for_each_master(const OwnPart& part, F f) const {
    int64_t first = part.begin;
    for (const Piece& piece : part.pieces) {
      const Tensor elements = elements_of(part, piece, first);
      if (elements.dtype() != piece.values.dtype()) f(piece, elements);
      first += piece.size;
    }
  }

  void send(size_t bucket) {
    const NoGradGuard unrecorded;
    const Tensor gradients = buckets.gradients(bucket);
    has_gradient.resize(buckets.parameters().size());
    for (const size_t i : buckets.numbers(bucket)) has_gradient[i] = buckets.parameters()[i].grad().defined();
    if (options.stage == 1) {
      means.push_back(gradients);
      sent.push_back(all_reduce_async_(gradients, group(bucket), ReduceOp::avg));
    } else {
      sent.push_back(reduce_scatter_async(gradients, group(bucket), ReduceOp::avg));
      for (const Tensor& p : buckets.members(bucket)) p.set_grad({});
    }
  }

  void reduce() {
    if (is_reduced) return;
    const NoGradGuard unrecorded;
    buckets.send_rest();
    is_reached = detail::any_of_ranks(has_gradient, options.group);
    if (options.experts) {
      const std::vector<bool> by_sharers = detail::any_of_ranks(has_gradient, options.experts->group);
      for (size_t i = 0; i < is_reached.size(); ++i) {
        if (sharers.is_expert(buckets.parameters()[i])) is_reached[i] = by_sharers[i];
      }
    }
    for (size_t b = 0; b < sent.size(); ++b) {
      const Tensor result = sent[b].wait();
      if (options.stage == 1) keep_means(b);
      received.push_back(options.stage == 1 ? means[b].narrow(0, own[b].begin, own[b].size) : result);
    }
    sent.clear();
    means.clear();
    is_reduced = true;
  }

  /// Sets the optimizer's gradients to the means, in the dtype of the master weights.
  void give() {
    reduce();
    const NoGradGuard unrecorded;
    for (size_t b = 0; b < received.size(); ++b) {
      int64_t begin = 0;
      for (const Piece& piece : own[b].pieces) {
        const Tensor mean = received[b].narrow(0, begin, piece.size).to(piece.values.dtype());
        piece.values.set_grad(is_reached[piece.parameter] ? mean : Tensor());
        begin += piece.size;
      }
    }
    received.clear();
  }

  void keep_means(size_t bucket) const {
    const std::vector<Tensor> members = buckets.members(bucket), parts = detail::split_like(means[bucket], members);
    for (size_t k = 0; k < members.size(); ++k) {
      if (is_reached[buckets.numbers(bucket)[k]]) members[k].set_grad(parts[k]);
    }
  }

  /// Calls f(index in the optimizer, piece, its parameter).
  template <class F>
  void for_each_piece(F f) const {
    size_t number = 0;
    for (size_t g = 0; g < optimizer->groups().size(); ++g) {
      for (const OwnPart& part : own) {
        for (const Piece& piece : part.pieces) {
          if (parameter_group[piece.parameter] == g) f(number++, piece, buckets.parameters()[piece.parameter]);
        }
      }
    }
  }

  /// In the order of the optimizer's parameters.
  std::vector<detail::OptimizerPart> optimizer_parts(const detail::Places& places) const {
    std::vector<detail::OptimizerPart> out;
    for_each_piece([&](size_t, const Piece& piece, const Tensor& parameter) {
      out.push_back({places.name(parameter), piece.values.detach(), places.part(piece.values, parameter, piece.begin),
                     is_narrow(parameter) && !is_narrow(piece.values)});
    });
    return out;
  }

  /// Gathers updated values on every rank; sharded parameters of modules are only copied into their storage.
  void gather() {
    const NoGradGuard unrecorded;
    for (size_t b = 0; b < buckets.size(); ++b) {
      if (own[b].kept.defined()) {
        for_each_master(own[b], [](const Piece& p, const Tensor& elements) { elements.copy_(p.values); });
        continue;
      }
      const std::vector<Tensor> members = buckets.members(b);
      std::vector<Tensor> updated{empty({0}, {members[0].dtype(), members[0].device()})};
      for (const Piece& piece : own[b].pieces) updated.push_back(piece.values.detach().to(members[0].dtype()));
      const std::vector<int64_t> sizes = shard_sizes(count_of(members), group(b).size());
      const Tensor all = all_gather(detail::flattened(updated), sizes, group(b));
      const std::vector<Tensor> parts = detail::split_like(all, members);
      for (size_t k = 0; k < members.size(); ++k) members[k].detach().copy_(parts[k]);
    }
    units.renew();
  }

  /// Copies values written to the parameters of these shards into their master weights.
  void take_written(const std::vector<Tensor>& kept) {
    const NoGradGuard unrecorded;
    const detail::TensorSet written(kept);
    for (const OwnPart& part : own) {
      if (part.kept.defined() && written.contains(part.kept)) renew_masters(part);
    }
    if (!kept.empty()) units.renew();
  }
  void renew_masters(const OwnPart& part) const {
    for_each_master(part, [](const Piece& p, const Tensor& elements) { p.values.detach().copy_(elements); });
  }
};

ShardedOptimizer::ShardedOptimizer(std::unique_ptr<optim::ElementwiseOptimizer> optimizer,
                                   ShardedOptimizerOptions options, Location where) {
  const CallScope call("ShardedOptimizer", where);
  if (options.stage < 1 || options.stage > 3) {
    raise_value("stage", "1, 2 or 3", options.stage);
  }
  if ((options.stage == 3) == options.modules.empty()) {
    raise<ValueError>({.problem = options.stage == 3 ? "stage 3 needs the modules whose parameters come and go"
                                                     : "modules' parameters come and go in stage 3 alone"});
  }
  const std::vector<std::vector<Tensor>> groups = trained(*optimizer);
  const std::vector<Tensor> parameters = joined(groups);
  detail::check_parameters(parameters, options.bucket_bytes);
  for (const Tensor& p : parameters) {
    if (!p.is_contiguous())
      raise<ValueError>({.problem = "a parameter is not contiguous", .details = p.shape().text()});
  }
  const Owners owners = owners_of(options.modules);
  const detail::TensorSet is_trained(parameters);
  std::vector<Tensor> all = optimizer->parameters();
  for (const nn::Module& module : options.modules) {
    for (const Tensor& p : module.parameters()) {
      if (!p.requires_grad() || is_trained.contains(p)) continue;
      raise<ValueError>({.problem = "a module's parameter requires a gradient, and the optimizer lacks it",
                         .details = p.shape().text()});
    }
    std::ranges::copy_if(module.parameters(), std::back_inserter(all),
                         [](const Tensor& p) { return !p.requires_grad(); });
  }
  detail::check_alike(all, options.group);
  const Sharers sharers(options);
  const auto [expert, rest] = std::ranges::partition(all, [&](const Tensor& p) { return !sharers.is_expert(p); });
  detail::make_alike({all.begin(), expert}, options.group);
  if (options.experts) detail::make_alike({expert, rest}, options.experts->group);
  state_ = Shared<State>::make(std::move(optimizer), options, groups, owners, where);
}

void ShardedOptimizer::reduce_gradients(Location where) {
  const CallScope call("ShardedOptimizer::reduce_gradients", where);
  state_->reduce();
}

double ShardedOptimizer::clip_grad_norm(double max_norm, const ClipScope& scope, Location where) {
  const CallScope call("ShardedOptimizer::clip_grad_norm", where);
  detail::check_max_norm(max_norm);
  state_->give();
  const detail::TensorSet elsewhere(scope.counted_elsewhere);
  std::vector<Tensor> counted;
  state_->for_each_piece([&](size_t, const Piece& piece, const Tensor& parameter) {
    if (!elsewhere.contains(parameter)) counted.push_back(piece.values);
  });
  std::vector<Group> groups{state_->options.group};
  groups.insert(groups.end(), scope.groups.begin(), scope.groups.end());
  return detail::clip_over(groups, counted, state_->optimizer->parameters(), max_norm);
}

void ShardedOptimizer::step(Location where) {
  const CallScope call("ShardedOptimizer::step", where);
  state_->give();
  state_->is_reduced = false;
  state_->buckets.begin_anew();
  state_->optimizer->step(where);
  state_->gather();
}

void ShardedOptimizer::zero_grad() {
  state_->optimizer->zero_grad();
  state_->received.clear();
  if (std::exchange(state_->is_reduced, false)) state_->buckets.begin_anew();
  for (const Tensor& p : state_->buckets.parameters()) p.set_grad({});
}

io::ShardedState ShardedOptimizer::sharded_state(std::span<const nn::NamedTensor> names, const io::ShardedState& places,
                                                 Location where) const {
  const CallScope call("ShardedOptimizer::sharded_state", where);
  return detail::optimizer_state(*state_->optimizer, state_->optimizer_parts({names, places}));
}

io::ShardedState ShardedOptimizer::sharded_parameters(std::span<const nn::NamedTensor> names,
                                                      const io::ShardedState& places) const {
  const detail::Places all(names, places);
  std::unordered_map<const TensorImpl*, io::ShardedTensor> parts;
  for (const auto& part : state_->units.parts()) {
    parts.emplace(part.parameter.impl(), all.part(part.elements, part.parameter, part.begin));
  }
  const detail::TensorSet in_parts(state_->units.members());
  io::ShardedState out;
  for (const auto& [name, tensor] : names) {
    const auto found = parts.find(tensor.impl());
    if (found != parts.end()) out.emplace(name, found->second);
    else if (!in_parts.contains(tensor)) out.emplace(name, all.whole(tensor));
  }
  return out;
}

void ShardedOptimizer::load_sharded_parameters(const io::Path& folder, std::span<const nn::NamedTensor> names,
                                               const io::LoadStateDictOptions& options, const io::ShardedState& places,
                                               Location where) {
  const CallScope call("ShardedOptimizer::load_sharded_parameters", where);
  io::load_state_dict(sharded_parameters(names, places), folder, options, where);
  const NoGradGuard unrecorded;
  for (const OwnPart& part : state_->own) state_->renew_masters(part);
  state_->units.renew();
}

void ShardedOptimizer::drop_whole() { state_->units.renew(); }

void ShardedOptimizer::load_sharded_state(const io::Path& folder, std::span<const nn::NamedTensor> names,
                                          const io::LoadStateDictOptions& options, const io::ShardedState& places,
                                          Location where) {
  const CallScope call("ShardedOptimizer::load_sharded_state", where);
  const std::vector<detail::OptimizerPart> parts = state_->optimizer_parts({names, places});
  if (detail::load_optimizer_state(*state_->optimizer, parts, folder, options, where)) state_->gather();
}

optim::Optimizer& ShardedOptimizer::optimizer() const { return *state_->optimizer; }

ShardedOptimizer::Whole ShardedOptimizer::whole_parameters(Location where) const {
  const CallScope call("ShardedOptimizer::whole_parameters", where);
  return Whole(state_);
}
ShardedOptimizer::Whole::Whole(Shared<State> state) : state_(std::move(state)) { state_->units.pin(); }
ShardedOptimizer::Whole::~Whole() {
  if (state_ != nullptr) state_->take_written(state_->units.unpin());
}

ShardedOptimizer::NoSync ShardedOptimizer::no_sync() const { return NoSync(state_); }
ShardedOptimizer::NoSync::NoSync(Shared<State> state)
    : state_(std::move(state)), outer_(state_->buckets.set_sending(false)) {}
ShardedOptimizer::NoSync::~NoSync() {
  if (state_ != nullptr) state_->buckets.set_sending(outer_);
}

}  // namespace weft::distributed
