#include "sharded_heads-inl.hpp"

#include <utility>

#include "../../ops/pointwise.hpp"

namespace weft::nn::detail {

namespace {

/// Applies f to t [length, batch, width] transposed to [batch, length, width], or to t [length, width]. An undefined t
/// is returned.
template <class F>
Tensor with_steps_second(const Tensor& t, F f) {
  if (!t.defined()) return t;
  return t.dim() == 3 ? f(t.transpose(0, 1)).transpose(0, 1) : f(t);
}

}  // namespace

HeadsResult sharded_heads(const ShardedLayer& parts, const ShardedLayer& out_proj, const Tensor& query,
                          const Tensor& key, const Tensor& value, int64_t heads, HeadsParameters parameters,
                          HeadsCall call, double p) {
  const auto brought = [&](const Tensor& t) {
    return with_steps_second(t, [&](const Tensor& x) { return parts.input(x); });
  };
  const Tensor q = brought(query), k = key.impl() == query.impl() ? q : brought(key),
               v = value.impl() == key.impl() ? k : brought(value);
  const int64_t own = heads / parts.count;
  if (const Tensor& mask = call.attn_mask; mask.defined() && mask.dim() == 3 && mask.size(0) % heads == 0) {
    const Tensor each = mask.reshape({mask.size(0) / heads, heads, mask.size(1), mask.size(2)});
    call.attn_mask = each.narrow(1, own * parts.index, own).reshape({-1, mask.size(1), mask.size(2)});
  }
  const Tensor bias = std::exchange(parameters.out_proj_bias, {});
  std::optional<ShardRngScope> draws;
  if (p > 0) draws.emplace(parts.index, q.device());
  HeadsResult result = multi_head_attention_forward(q, k, v, own, parameters, call, p);
  draws.reset();
  result.output = with_steps_second(result.output, [&](const Tensor& term) { return out_proj.sum(term, bias); });
  if (result.weights.defined()) result.weights = parts.over_heads(result.weights, call.average_attn_weights);
  return result;
}

}  // namespace weft::nn::detail
