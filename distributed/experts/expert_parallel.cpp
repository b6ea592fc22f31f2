#include "../expert_parallel.hpp"

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../autograd/node.hpp"
#include "../../nn/sharded_layer-inl.hpp"
#include "../../nn/moe/routing-inl.hpp"
#include "../../ops/masked.hpp"
#include "../../ops/pointwise.hpp"
#include "../collectives.hpp"
#include "../detail/member.hpp"
#include "../detail/sequence_mixture.hpp"

namespace weft::distributed {

namespace {

/// x, with its gradient multiplied by `factor`.
Tensor with_scaled_gradient(const Tensor& x, double factor) {
  if (factor == 1 || !should_record(x)) return x;
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = x.detach();
  }
  record(
      out, [factor](Tensor&& g) { return g * factor; }, x);
  return out;
}

/// [T, k], i32: the experts of each token; -1 if it was dropped.
Tensor kept_experts(const nn::detail::Routed& routed) {
  return masked_fill(routed.to.expert_id, routed.to.scatter.t() < 0, -1);
}

/// Sums over ranks with other tokens of the same sequences. Each of them adds the losses to its own, and gradients are
/// summed over the ranks: so the losses' gradients are divided by the number of ranks.
nn::detail::RouterSums over_sequence(const nn::detail::RouterSums& own, const Group& group) {
  return {all_reduce(own.counts, group), with_scaled_gradient(all_reduce(own.shares, group), 1. / group.size())};
}

class Experts final : public nn::detail::ShardedLayer {
 public:
  Experts(int64_t experts, const ExpertParallelOptions& options)
      : ShardedLayer(options.group.size(), options.group.rank()),
        options_(options),
        dispatcher_(experts, options.group, {.kind = options.kind}) {}
  Tensor through_experts(const Tensor& tokens, const nn::detail::Routed& routed, const Tensor& up, const Tensor& down,
                         nn::ExpertKind kind) const override {
    const DispatchedTokens to = dispatcher_.dispatch(tokens, kept_experts(routed), routed.weights);
    const double factor = options_.mean_of_losses ? 1. / count : 1;
    return dispatcher_.combine(nn::detail::through_experts(to.tokens, with_scaled_gradient(up, factor),
                                                           with_scaled_gradient(down, factor), to.counts, kind),
                               to);
  }
  nn::detail::RouterSums sums(const nn::detail::RouterSums& own) const override {
    const nn::detail::RouterSums sums = options_.sequence ? over_sequence(own, *options_.sequence) : own;
    return {over_all_ranks(sums.counts), over_all_ranks(sums.shares)};
  }
  std::optional<int> shard_dim(std::string_view name) const override {
    return name == "up" || name == "down" ? std::optional(0) : std::nullopt;
  }

 private:
  Tensor over_all_ranks(const Tensor& own) const {
    const Tensor sum = all_reduce(own, options_.group);
    return options_.replicas ? all_reduce(sum, *options_.replicas) : sum;
  }

  const ExpertParallelOptions options_;
  const TokenDispatcher dispatcher_;
};

/// All experts, for a shard of the sequence.
class SequenceMixture final : public nn::detail::ShardedLayer {
 public:
  explicit SequenceMixture(const Group& group) : ShardedLayer(1, 0), group_(group) {}
  bool shards_experts() const override { return false; }
  nn::detail::RouterSums sums(const nn::detail::RouterSums& own) const override { return over_sequence(own, group_); }
  std::optional<int> shard_dim(std::string_view) const override { return {}; }

 private:
  const Group group_;
};

}  // namespace

void detail::join_router_losses(const nn::Module& layer, const Group& group, Location where) {
  nn::detail::shard_layer(layer, Shared<SequenceMixture>::make(group), where);
}

void cut_experts(const nn::Module& layer, const ExpertParallelOptions& options, Location where) {
  const CallScope call("cut_experts", where);
  options.group.member().check_member();
  if (options.replicas) options.replicas->member().check_member();
  if (options.sequence) options.sequence->member().check_member();
  if (!nn::detail::is_of(layer, TypeId::of<nn::MoE>())) {
    raise<ValueError>({.problem = fmt::format("a {} has no experts", layer.class_name())});
  }
  const int64_t experts = layer.config().get<int64_t>("experts");
  nn::detail::shard_layer(layer, Shared<Experts>::make(experts, options), where);
}

ExpertParallelMoE::ExpertParallelMoE(int64_t width, int64_t hidden, int64_t experts,
                                     const ExpertParallelOptions& options, Location where)
    : MoE(width, hidden, experts, options.moe, where) {
  cut_experts(*this, options, where);
  set_class_name("ExpertParallelMoE");
}

std::vector<Tensor> ExpertParallelMoE::replicated_parameters() const {
  if (shared_up.defined()) return {router, shared_up, shared_down};
  return {router};
}

}  // namespace weft::distributed
