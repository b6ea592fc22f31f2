#include "expert_parallel.hpp"

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../autograd/node.hpp"
#include "../nn/moe/routing-inl.hpp"
#include "../ops/index.hpp"
#include "../ops/masked.hpp"
#include "../ops/pointwise.hpp"
#include "collectives.hpp"
#include "detail/member.hpp"

namespace weft::distributed {

namespace {

Tensor own_part(const Tensor& whole, const Group& group) {
  const int64_t size = whole.size(0) / group.size();
  return whole.detach().narrow(0, size * group.rank(), size).clone();
}

/// x itself, whose gradient is multiplied.
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

/// [T, k], i32: the experts of each token, -1 where it was dropped.
Tensor kept_experts(const nn::detail::Routed& routed) {
  return masked_fill(routed.to.expert_id, routed.to.scatter.t() < 0, -1);
}

nn::detail::Routed routed_by(const ExpertParallelMoE& moe, const Tensor& tokens, const nn::MoEOptions& options) {
  return nn::detail::route(tokens, moe.borrowed(moe.router), moe.expert_bias, options, false);
}

/// Those of all ranks' tokens.
nn::detail::RouterSums all_sums(const nn::detail::RouterSums& own, const Group& group) {
  return {all_reduce(own.counts, group), all_reduce(own.shares, group)};
}

/// This rank's tokens through the experts of all ranks and back.
Tensor results(const ExpertParallelMoE& moe, const Tensor& x, const Tensor& tokens, const nn::detail::Routed& routed,
               const ExpertParallelOptions& options, const TokenDispatcher& dispatcher) {
  const nn::ExpertKind kind = options.moe.kind;
  const DispatchedTokens to = dispatcher.dispatch(tokens, kept_experts(routed), routed.weights);
  const double factor = options.mean_of_losses ? 1. / options.group.size() : 1;
  const Tensor rows =
      nn::detail::through_experts(to.tokens, with_scaled_gradient(moe.borrowed(moe.up), factor),
                                  with_scaled_gradient(moe.borrowed(moe.down), factor), to.counts, kind);
  Tensor y = dispatcher.combine(rows, to);
  if (moe.shared_up.defined()) {
    y = y + nn::detail::through_shared(tokens, moe.borrowed(moe.shared_up), moe.borrowed(moe.shared_down), kind);
  }
  return y.reshape(x.shape());
}

}  // namespace

ExpertParallelMoE::ExpertParallelMoE(int64_t width, int64_t hidden, int64_t experts, ExpertParallelOptions options,
                                     Location where)
    : options_(std::move(options)), dispatcher_(experts, options_.group, {.kind = options_.kind}, where) {
  const nn::MoE whole(width, hidden, experts, options_.moe, where);
  router = whole.router.detach();
  up = own_part(whole.up, options_.group);
  down = own_part(whole.down, options_.group);
  if (whole.shared_up.defined()) {
    shared_up = whole.shared_up.detach();
    shared_down = whole.shared_down.detach();
  }
  if (whole.expert_bias.defined()) expert_bias = whole.expert_bias.detach();
  WEFT_REGISTER(router, up, down, shared_up, shared_down, expert_bias);
  set_config(whole.config());
}

Tensor ExpertParallelMoE::forward(const Tensor& x, Location where) const {
  const CallScope call("ExpertParallelMoE", where);
  const Tensor tokens = nn::detail::as_tokens(x, router.size(1));
  return results(*this, x, tokens, routed_by(*this, tokens, options_.moe), options_, dispatcher_);
}

nn::MoEOutput ExpertParallelMoE::forward_with_losses(const Tensor& x, Location where) const {
  const CallScope call("ExpertParallelMoE", where);
  const Tensor tokens = nn::detail::as_tokens(x, router.size(1));
  const nn::detail::Routed routed = routed_by(*this, tokens, options_.moe);
  const nn::detail::RouterSums sums = nn::detail::router_sums(routed, options_.moe);
  nn::MoEOutput out = nn::detail::losses_of(all_sums(sums, options_.group), options_.moe);
  out.output = results(*this, x, tokens, routed, options_, dispatcher_);
  return out;
}

void ExpertParallelMoE::update_expert_bias(const Tensor& counts, double rate, Location where) {
  const CallScope call("ExpertParallelMoE::update_expert_bias", where);
  nn::detail::update_bias(expert_bias, counts, rate);
}

std::vector<Tensor> ExpertParallelMoE::replicated_parameters() const {
  if (shared_up.defined()) return {router, shared_up, shared_down};
  return {router};
}

io::ShardedState ExpertParallelMoE::sharded_state(const std::string& prefix) const {
  io::ShardedState out;
  for (const auto& [name, part] : {std::pair("up", Tensor(up)), std::pair("down", Tensor(down))}) {
    io::ShardedTensor shard{part.detach(), part.shape(), Dims::filled(part.dim(), 0)};
    shard.global_shape[0] *= options_.group.size();
    shard.global_offset[0] = part.size(0) * options_.group.rank();
    out.emplace(prefix + name, std::move(shard));
  }
  for (const auto& [name, whole] :
       {std::pair("router", Tensor(router)), std::pair("shared_up", Tensor(shared_up)),
        std::pair("shared_down", Tensor(shared_down)), std::pair("expert_bias", Tensor(expert_bias))}) {
    if (!whole.defined()) continue;
    out.emplace(prefix + name, io::ShardedTensor{whole.detach(), whole.shape(), Dims::filled(whole.dim(), 0)});
  }
  return out;
}

}  // namespace weft::distributed
