#include "sharded_optimizer.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/create.hpp"
#include "../ops/pointwise.hpp"
#include "../optim/clip_grad.hpp"
#include "../tensor/error.hpp"
#include "collectives.hpp"
#include "detail/buckets.hpp"
#include "detail/flat.hpp"

namespace weft::distributed {

namespace {

/// What this rank updates of a parameter: elements [begin, begin + size) of it.
struct Piece {
  size_t parameter;
  int64_t begin, size;
  /// In the parameter's memory, or a master of its own.
  Tensor values;
};

/// The part of a bucket's elements, one parameter after the other, that this rank owns.
struct OwnPart {
  int64_t begin = 0, size = 0;
  std::vector<Piece> pieces = {};
};

bool is_narrow(const Tensor& t) { return t.dtype() == DType::f16 || t.dtype() == DType::bf16; }

Tensor piece_of(const Tensor& parameter, int64_t begin, int64_t size, bool masters) {
  const Tensor view = parameter.detach().view({-1}).narrow(0, begin, size);
  return (masters && is_narrow(parameter) ? view.to(DType::f32) : view).requires_grad_();
}

int64_t count_of(const std::vector<Tensor>& tensors) {
  int64_t count = 0;
  for (const Tensor& t : tensors) count += t.numel();
  return count;
}

/// Of each group on its own, numbered through all groups.
std::vector<std::vector<size_t>> buckets_of_groups(const std::vector<std::vector<Tensor>>& groups, int64_t bytes) {
  std::vector<std::vector<size_t>> out;
  size_t first = 0;
  for (const std::vector<Tensor>& group : groups) {
    for (std::vector<size_t> bucket : detail::buckets_of(group, bytes)) {
      for (size_t& number : bucket) number += first;
      out.push_back(std::move(bucket));
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
  std::vector<size_t> group_of;
  detail::GradientBuckets buckets;
  std::vector<OwnPart> own;
  /// Of buckets that have left.
  std::vector<Work> sent = {};
  std::vector<bool> has_gradient = {};
  /// In stage 1, what they were sent as.
  std::vector<Tensor> means = {};
  bool is_reduced = false;

  State(std::unique_ptr<optim::ElementwiseOptimizer> optimizer_, const ShardedOptimizerOptions& options_,
        const std::vector<std::vector<Tensor>>& groups, Location where)
      : optimizer(std::move(optimizer_)),
        options(options_),
        buckets(
            joined(groups), buckets_of_groups(groups, options.bucket_bytes), [this](size_t bucket) { send(bucket); },
            where) {
    for (size_t g = 0; g < groups.size(); ++g) group_of.insert(group_of.end(), groups[g].size(), g);
    std::vector<std::vector<Tensor>> pieces(groups.size());
    for (size_t b = 0; b < buckets.size(); ++b) {
      own.push_back(own_part(b));
      for (const Piece& p : own[b].pieces) pieces[group_of[p.parameter]].push_back(p.values);
    }
    optimizer->replace_parameters(pieces, where);
  }

  int ranks() const { return options.group.size(); }

  OwnPart own_part(size_t bucket) const {
    const int rank = options.group.rank();
    const int64_t count = count_of(buckets.members(bucket));
    OwnPart part{shard_begin(count, ranks(), rank), shard_size(count, ranks(), rank)};
    int64_t begin = 0;  // of the parameter in the bucket
    for (const size_t i : buckets.numbers(bucket)) {
      const Tensor& p = buckets.parameters()[i];
      const int64_t low = std::max(begin, part.begin), high = std::min(begin + p.numel(), part.begin + part.size);
      if (low < high) {
        part.pieces.push_back(
            {i, low - begin, high - low, piece_of(p, low - begin, high - low, options.master_weights)});
      }
      begin += p.numel();
    }
    return part;
  }

  void send(size_t bucket) {
    const NoGradGuard unrecorded;
    const Tensor gradients = buckets.gradients(bucket);
    has_gradient.resize(buckets.parameters().size());
    for (const size_t i : buckets.numbers(bucket)) has_gradient[i] = buckets.parameters()[i].grad().defined();
    if (options.stage == 1) {
      means.push_back(gradients);
      sent.push_back(all_reduce_async_(gradients, options.group, ReduceOp::avg));
    } else {
      sent.push_back(reduce_scatter_async(gradients, options.group, ReduceOp::avg));
      for (const Tensor& p : buckets.members(bucket)) p.set_grad({});
    }
  }

  void reduce() {
    if (is_reduced) return;
    const NoGradGuard unrecorded;
    buckets.send_rest();
    const std::vector<bool> is_reached = detail::any_of_ranks(has_gradient, options.group);
    for (size_t b = 0; b < sent.size(); ++b) {
      const Tensor result = sent[b].wait();
      if (options.stage == 1) keep_means(b, is_reached);
      const Tensor part = options.stage == 1 ? means[b].narrow(0, own[b].begin, own[b].size) : result;
      int64_t begin = 0;
      for (const Piece& piece : own[b].pieces) {
        const Tensor mean = part.narrow(0, begin, piece.size).to(piece.values.dtype());
        piece.values.set_grad(is_reached[piece.parameter] ? mean : Tensor());
        begin += piece.size;
      }
    }
    sent.clear();
    means.clear();
    is_reduced = true;
  }

  void keep_means(size_t bucket, const std::vector<bool>& is_reached) const {
    const std::vector<Tensor> members = buckets.members(bucket), parts = detail::split_like(means[bucket], members);
    for (size_t k = 0; k < members.size(); ++k) {
      if (is_reached[buckets.numbers(bucket)[k]]) members[k].set_grad(parts[k]);
    }
  }

  /// Calls f(number in the optimizer, piece, its parameter).
  template <class F>
  void for_each_piece(F f) const {
    size_t number = 0;
    for (size_t g = 0; g < optimizer->groups().size(); ++g) {
      for (const OwnPart& part : own) {
        for (const Piece& piece : part.pieces) {
          if (group_of[piece.parameter] == g) f(number++, piece, buckets.parameters()[piece.parameter]);
        }
      }
    }
  }

  /// Every rank gets what the others updated.
  void gather() {
    const NoGradGuard unrecorded;
    for (size_t b = 0; b < buckets.size(); ++b) {
      const std::vector<Tensor> members = buckets.members(b);
      std::vector<Tensor> updated{empty({0}, {members[0].dtype(), members[0].device()})};
      for (const Piece& piece : own[b].pieces) updated.push_back(piece.values.detach().to(members[0].dtype()));
      const std::vector<int64_t> sizes = shard_sizes(count_of(members), ranks());
      const Tensor all = all_gather(detail::flattened(updated), sizes, options.group);
      const std::vector<Tensor> parts = detail::split_like(all, members);
      for (size_t k = 0; k < members.size(); ++k) members[k].detach().copy_(parts[k]);
    }
  }
};

ShardedOptimizer::ShardedOptimizer(std::unique_ptr<optim::ElementwiseOptimizer> optimizer,
                                   ShardedOptimizerOptions options, Location where) {
  const CallScope call("ShardedOptimizer", where);
  if (options.stage != 1 && options.stage != 2) {
    raise<ValueError>({.problem = fmt::format("there are stages 1 and 2, not {}", options.stage)});
  }
  const std::vector<std::vector<Tensor>> groups = trained(*optimizer);
  const std::vector<Tensor> parameters = joined(groups);
  detail::check_parameters(parameters, options.bucket_bytes);
  for (const Tensor& p : parameters) {
    if (!p.is_contiguous())
      raise<ValueError>({.problem = "a parameter is not contiguous", .details = p.shape().text()});
  }
  detail::check_alike(parameters, options.group);
  detail::make_alike(optimizer->parameters(), options.group);
  state_ = Shared<State>::make(std::move(optimizer), options, groups, where);
}

void ShardedOptimizer::reduce_gradients(Location where) {
  const CallScope call("ShardedOptimizer::reduce_gradients", where);
  state_->reduce();
}

double ShardedOptimizer::clip_grad_norm(double max_norm, Location where) {
  const CallScope call("ShardedOptimizer::clip_grad_norm", where);
  if (!(max_norm >= 0)) raise<ValueError>({.problem = fmt::format("max_norm is {}", max_norm)});
  state_->reduce();
  const NoGradGuard unrecorded;
  const std::vector<Tensor> pieces = state_->optimizer->parameters();
  const double here = optim::total_grad_norm(pieces).item<double>();
  const double norm = std::sqrt(all_reduce(tensor(here * here, f64), state_->options.group).item<double>());
  const double factor = max_norm / (norm + 1e-6);
  for (const Tensor& p : pieces) {
    if (p.grad().defined() && !(factor >= 1)) p.grad().mul_(factor);
  }
  return norm;
}

void ShardedOptimizer::step(Location where) {
  const CallScope call("ShardedOptimizer::step", where);
  state_->reduce();
  state_->is_reduced = false;
  state_->buckets.begin_anew();
  state_->optimizer->step(where);
  state_->gather();
}

void ShardedOptimizer::zero_grad() {
  state_->optimizer->zero_grad();
  for (const Tensor& p : state_->buckets.parameters()) p.set_grad({});
}

namespace {

const std::string& name_of(const Tensor& parameter, std::span<const nn::NamedTensor> names) {
  const auto found =
      std::ranges::find(names, parameter.impl(), [](const nn::NamedTensor& n) { return n.tensor.impl(); });
  if (found != names.end()) return found->name;
  raise<ValueError>({.problem = "a parameter has no name", .details = parameter.shape().text()});
}

io::ShardedTensor part_of_flat(const Tensor& values, const Tensor& parameter, const Piece& piece) {
  return {values.detach(), parameter.shape(), Dims::filled(parameter.dim(), 0),
          io::FlatRange{piece.begin, piece.begin + piece.size}, parameter.shape()};
}
io::ShardedTensor alike(const Tensor& scalar) { return {scalar, Dims(), Dims()}; }

/// What all groups have: their options.
bool is_option(const std::string& key) { return key.starts_with("group.") && !key.ends_with(".params"); }

}  // namespace

io::ShardedState ShardedOptimizer::sharded_state(std::span<const nn::NamedTensor> names, Location where) const {
  const CallScope call("ShardedOptimizer::sharded_state", where);
  const optim::Optimizer::StateDict values = state_->optimizer->state_dict();
  io::ShardedState out;
  for (const auto& [key, value] : values) {
    if (is_option(key)) out.emplace(key, alike(value));
  }
  state_->for_each_piece([&](size_t number, const Piece& piece, const Tensor& parameter) {
    const std::string prefix = fmt::format("{}.", number), name = name_of(parameter, names) + ".";
    for (auto at = values.lower_bound(prefix); at != values.end() && at->first.starts_with(prefix); ++at) {
      const std::string key = name + at->first.substr(prefix.size());
      out.emplace(key, at->second.dim() == 0 ? alike(at->second) : part_of_flat(at->second, parameter, piece));
    }
    if (is_narrow(parameter) && !is_narrow(piece.values)) {
      out.emplace(name + "master", part_of_flat(piece.values, parameter, piece));
    }
  });
  return out;
}

void ShardedOptimizer::load_sharded_state(const io::Path& folder, std::span<const nn::NamedTensor> names,
                                          const io::LoadStateDictOptions& options, Location where) {
  const CallScope call("ShardedOptimizer::load_sharded_state", where);
  const io::TensorStore store = io::open_state_dict(folder, options.id, where);
  io::ShardedState wanted;
  optim::Optimizer::StateDict values;
  for (const auto& [key, value] : state_->optimizer->state_dict()) {
    if (!is_option(key)) continue;
    values.emplace(key, zeros_like(value));
    wanted.emplace(key, alike(values.at(key)));
  }
  std::vector<std::pair<Tensor, Tensor>> masters;
  state_->for_each_piece([&](size_t number, const Piece& piece, const Tensor& parameter) {
    const std::string prefix = fmt::format("{}.", number), name = name_of(parameter, names) + ".";
    for (const auto& [key, info] : store.entries()) {
      if (!key.starts_with(name)) continue;
      const std::string rest = key.substr(name.size());
      if (rest == "master") {
        masters.emplace_back(piece.values.detach(), zeros_like(piece.values.detach()));
        wanted.emplace(key, part_of_flat(masters.back().second, parameter, piece));
      } else if (state_->optimizer->keeps(rest)) {
        const bool is_scalar = info.shape.empty();
        const Tensor value = is_scalar ? zeros({}, {.dtype = info.dtype})
                                       : zeros({piece.size}, {piece.values.dtype(), piece.values.device()});
        values.emplace(prefix + rest, value);
        wanted.emplace(key, is_scalar ? alike(value) : part_of_flat(value, parameter, piece));
      }
    }
  });
  io::load_state_dict(wanted, folder, options, where);
  state_->optimizer->load_state_dict(values, where);
  const NoGradGuard unrecorded;
  for (const auto& [piece, master] : masters) piece.copy_(master);
  if (!masters.empty()) state_->gather();
}

optim::Optimizer& ShardedOptimizer::optimizer() const { return *state_->optimizer; }

ShardedOptimizer::NoSync ShardedOptimizer::no_sync() const { return NoSync(state_); }
ShardedOptimizer::NoSync::NoSync(Shared<State> state)
    : state_(std::move(state)), outer_(state_->buckets.set_sending(false)) {}
ShardedOptimizer::NoSync::~NoSync() { state_->buckets.set_sending(outer_); }

}  // namespace weft::distributed
