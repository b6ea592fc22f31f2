#include "../../ops/create.hpp"
#include "../attention.hpp"
#include "../description-inl.hpp"
#include "../init.hpp"
#include "../layer-inl.hpp"
#include "sharded_heads-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::nn {

namespace {

constexpr const char* layer = "nn::MultiheadAttention";

int64_t checked_heads(int64_t width, int64_t heads, Location where) {
  if (heads > 0 && width > 0 && width % heads == 0) return heads;
  raise<ValueError>({.op = layer, .problem = fmt::format("embed_dim {} cannot be split over {} heads", width, heads)},
                    where);
}

}  // namespace

static auto describe(Of<MultiheadAttention>) {
  using O = MultiheadAttentionOptions;
  return described("MultiheadAttention", "", required<int64_t>("embed_dim").hidden(),
                   required<int64_t>("num_heads").hidden(), option("dropout", &O::dropout).hidden(),
                   option("bias", &O::bias).hidden(), option("add_bias_kv", &O::add_bias_kv).hidden(),
                   option("add_zero_attn", &O::add_zero_attn).hidden(),
                   option("kdim", &O::kdim).hidden().none_in_python().or_as("embed_dim"),
                   option("vdim", &O::vdim).hidden().none_in_python().or_as("embed_dim"),
                   option("batch_first", &O::batch_first).hidden());
}
void detail::describe_multihead_attention(LayerList& list) { list.add<MultiheadAttention>(); }

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options,
                                       Location where)
    : out_proj(embed_dim, embed_dim, options.bias, where),
      heads_(checked_heads(embed_dim, num_heads, where)),
      options_(options) {
  check_size(layer, "kdim", options.kdim, where);
  check_size(layer, "vdim", options.vdim, where);
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    raise<ValueError>({.op = layer, .problem = mismatch_text("dropout", "a number in [0, 1]", options.dropout)}, where);
  }
  const int64_t kdim = options.kdim > 0 ? options.kdim : embed_dim, vdim = options.vdim > 0 ? options.vdim : embed_dim;
  const auto drawn = [&](const Dims& shape) {
    return init::xavier_uniform_(empty(shape, {}, where), 1, nullptr, where);
  };
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight = drawn({3 * embed_dim, embed_dim});
  } else {
    q_proj_weight = drawn({embed_dim, embed_dim});
    k_proj_weight = drawn({embed_dim, kdim});
    v_proj_weight = drawn({embed_dim, vdim});
  }
  if (options.bias) {
    in_proj_bias = zeros(3 * embed_dim, {}, where);
    init::zeros_(out_proj.bias, where);
  }
  if (options.add_bias_kv) {
    bias_k = init::xavier_normal_(empty({1, 1, embed_dim}, {}, where), 1, nullptr, where);
    bias_v = init::xavier_normal_(empty({1, 1, embed_dim}, {}, where), 1, nullptr, where);
  }
  WEFT_REGISTER(in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias, bias_k, bias_v, out_proj);
  options_.kdim = kdim, options_.vdim = vdim;
  set_options(*this, where, embed_dim, num_heads, options_);
}

MultiheadAttentionResult MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                     const MultiheadAttentionCall& call, Location where) const {
  const detail::ShardedLayer* const parts = detail::sharding_of(*this);
  const bool swaps = options_.batch_first && query.defined() && query.dim() == 3;
  const bool same = query.impl() == key.impl() && key.impl() == value.impl();
  const auto steps_first = [&](const Tensor& t) {
    return swaps && t.defined() && t.dim() == 3 ? t.transpose(0, 1, where) : t;
  };
  const Tensor q = steps_first(query), k = same ? q : steps_first(key), v = same ? q : steps_first(value);
  const auto own = [&](const Parameter& member) -> Tensor { return borrowed(member, where); };
  const HeadsParameters parameters{.in_proj_weight = own(in_proj_weight),
                                   .q_proj_weight = own(q_proj_weight),
                                   .k_proj_weight = own(k_proj_weight),
                                   .v_proj_weight = own(v_proj_weight),
                                   .in_proj_bias = own(in_proj_bias),
                                   .bias_k = own(bias_k),
                                   .bias_v = own(bias_v),
                                   .out_proj_weight = out_proj.borrowed(out_proj.weight, where),
                                   .out_proj_bias = out_proj.borrowed(out_proj.bias, where),
                                   .add_zero_attn = options_.add_zero_attn};
  const double p = is_training() ? options_.dropout : 0;
  MultiheadAttentionResult result;
  if (parts == nullptr) {
    result = multi_head_attention_forward(q, k, v, heads_, parameters, call, p, where);
  } else {
    const CallScope scope("MultiheadAttention", where);
    result = detail::sharded_heads(*parts, *detail::sharding_of(out_proj), q, k, v, heads_, parameters, call, p);
  }
  if (swaps) result.output = result.output.transpose(0, 1, where);
  return result;
}

}  // namespace weft::nn
