#include "../../autograd/node.hpp"
#include "../auxiliary_loss.hpp"
#include "../config.hpp"
#include "../layer-inl.hpp"
#include "../sharded_layer-inl.hpp"
#include "routing-inl.hpp"

namespace weft::nn {

MoE::MoE(int64_t width, int64_t hidden, int64_t experts, MoEOptions options, Location where) : options_(options) {
  detail::check_options("nn::MoE", width, hidden, experts, options, where);
  const int64_t rows = options.kind == ExpertKind::swiglu ? 2 : 1;
  router = uniform_by_width({experts, width}, width, where);
  up = uniform_by_width({experts, rows * hidden, width}, width, where);
  down = uniform_by_width({experts, width, hidden}, hidden, where);
  if (const int64_t shared = options.shared_experts * hidden; options.shared_experts > 0) {
    shared_up = uniform_by_width({rows * shared, width}, width, where);
    shared_down = uniform_by_width({width, shared}, shared, where);
  }
  if (options.expert_bias) expert_bias = zeros(experts, {f32});
  WEFT_REGISTER(router, up, down, shared_up, shared_down, expert_bias);
  set_config(detail::config_of(width, hidden, experts, options));
}

namespace {

/// Null if this process has all experts.
const detail::ShardedLayer* sharded_experts(const MoE& moe) {
  const detail::ShardedLayer* const parts = detail::sharding_of(moe);
  return parts != nullptr && parts->shards_experts() ? parts : nullptr;
}

/// Routes the tokens, and moves them unless experts are sharded: then ShardedLayer::through_experts does.
detail::Routed routed_by(const MoE& moe, const Tensor& tokens) {
  const bool moves = sharded_experts(moe) == nullptr;
  return detail::route(tokens, moe.borrowed(moe.router), moe.expert_bias, moe.options(), moves);
}

Tensor results(const MoE& moe, const Tensor& x, const Tensor& tokens, const detail::Routed& routed) {
  const ExpertKind kind = moe.options().kind;
  const detail::ShardedLayer* const parts = sharded_experts(moe);
  const Tensor up = moe.borrowed(moe.up), down = moe.borrowed(moe.down);
  Tensor y = parts != nullptr ? parts->through_experts(tokens, routed, up, down, kind)
                              : moe_combine(detail::through_experts(routed.to.y, up, down, routed.kept, kind),
                                            routed.weights, routed.to.scatter);
  if (moe.shared_up.defined()) {
    y = y + detail::through_shared(tokens, moe.borrowed(moe.shared_up), moe.borrowed(moe.shared_down), kind);
  }
  return y.reshape(x.shape());
}

}  // namespace

Tensor MoE::forward(const Tensor& x, Location where) const {
  const CallScope call("MoE", where);
  if (recording() && is_training() && (options_.balance_weight != 0 || options_.z_weight != 0)) {
    const auto [y, balance, z, counts] = forward_with_losses(x, where);
    return add_auxiliary_loss(add_auxiliary_loss(y, balance, options_.balance_weight), z, options_.z_weight);
  }
  const Tensor tokens = detail::as_tokens(x, router.size(1));
  return results(*this, x, tokens, routed_by(*this, tokens));
}

MoEOutput MoE::forward_with_losses(const Tensor& x, Location where) const {
  const CallScope call("MoE", where);
  const Tensor tokens = detail::as_tokens(x, router.size(1));
  const detail::Routed routed = routed_by(*this, tokens);
  const detail::RouterSums own = detail::router_sums(routed, options_);
  const detail::ShardedLayer* const parts = detail::sharding_of(*this);
  MoEOutput out = detail::losses_of(parts != nullptr ? parts->sums(own) : own, options_);
  out.output = results(*this, x, tokens, routed);
  return out;
}

void MoE::update_expert_bias(const Tensor& counts, double rate, Location where) {
  const CallScope call("MoE::update_expert_bias", where);
  detail::update_bias(expert_bias, counts, rate);
}

}  // namespace weft::nn
