#include <fmt/format.h>

#include "../description-inl.hpp"
#include "../../ops/attention.hpp"
#include "../attention.hpp"
#include "../sharded_layer-inl.hpp"

namespace weft::nn {

namespace {

int64_t checked_heads(int64_t width, int64_t heads, Location where) {
  if (heads > 0 && width > 0 && width % heads == 0) return heads;
  raise<ValueError>(
      {.op = "nn::SelfAttention", .problem = fmt::format("a width of {} cannot be split over {} heads", width, heads)},
      where);
}

}  // namespace

static auto describe(Of<SelfAttention>) {
  using O = AttentionOptions;
  return described("SelfAttention", "", required<int64_t>("width").hidden(), required<int64_t>("heads").hidden(),
                   option("causal", &O::causal).hidden(), option("dropout", &O::dropout).hidden(),
                   option("bias", &O::bias).hidden());
}
void detail::describe_self_attention(LayerList& list) { list.add<SelfAttention>(); }

SelfAttention::SelfAttention(int64_t width, int64_t heads, AttentionOptions options, Location where)
    : qkv(width, 3 * width, options.bias, where),
      proj(width, width, options.bias, where),
      dropout(options.dropout, where),
      heads_(checked_heads(width, heads, where)),
      options_(options) {
  register_module("qkv", qkv);
  register_module("proj", proj);
  register_module("dropout", dropout);
  set_options(*this, where, width, heads, options);
}

Tensor SelfAttention::forward(const Tensor& x, Location where) const {
  const int64_t width = qkv.weight.size(1);
  if (!x.defined() || x.dim() != 3 || x.sizes()[2] != width) {
    raise<ShapeError>({.op = "nn::SelfAttention",
                       .problem = fmt::format("x is not [batch, length, {}]", width),
                       .details = x.defined() ? x.shape().text() : "undefined"},
                      where);
  }
  // If qkv is sharded, these are this process's heads, and x may be its shard of the sequence.
  const Tensor all = qkv(Input(x, where));
  const int64_t batch = all.sizes()[0], length = all.sizes()[1], own = all.sizes()[2] / 3, head = width / heads_;
  if (own % head != 0) {
    raise<ValueError>({.op = "nn::SelfAttention", .problem = fmt::format("{} heads cannot be shared out", heads_)},
                      where);
  }
  const std::vector<Tensor> parts = all.split(own, 2, where);
  const auto heads = [&](const Tensor& t) {
    return t.view({batch, length, own / head, head}, where).transpose(1, 2, where);
  };
  const double p = is_training() ? options_.dropout : 0;
  std::optional<detail::ShardRngScope> draws;
  const detail::ShardedLayer* const in_parts = detail::sharding_of(qkv);
  if (in_parts != nullptr && p > 0) draws.emplace(in_parts->index, all.device());
  const Tensor mixed = scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]),
                                                    {.dropout_p = p, .causal = options_.causal}, where);
  draws.reset();
  const Tensor joined = mixed.transpose(1, 2, where).reshape({batch, length, own}, where);
  return dropout(Input(proj(Input(joined, where)), where));
}

}  // namespace weft::nn
