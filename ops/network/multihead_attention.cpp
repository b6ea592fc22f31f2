#include <cmath>
#include <limits>

#include "../attention.hpp"
#include "../create.hpp"
#include "../detail/masked.hpp"
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../diagonal.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../matmul.hpp"
#include "../pad.hpp"
#include "../random.hpp"
#include "../reduce.hpp"
#include "../softmax.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// True means -infinity; floats are added.
Tensor added_to_scores(const char* what, const Tensor& mask, DType dtype) {
  if (is_floating(mask.dtype()) && !is_storage_only(mask.dtype())) return mask.to(dtype);
  if (mask.dtype() != DType::boolean) {
    raise_dtype(what, "bool or a floating-point dtype", mask.dtype(),
                "for 0 and 1: mask.to(DType::boolean); true is not attended to");
  }
  return masked_fill(zeros(mask.sizes(), {dtype, mask.device()}), mask, -std::numeric_limits<double>::infinity());
}

// [length, batch, width] as [batch, heads, length, width / heads]
Tensor in_heads(const Tensor& t, int64_t heads) {
  return t.reshape({t.size(0), t.size(1), heads, t.size(2) / heads}).permute({1, 2, 0, 3});
}

struct Masks {
  Tensor scores;  ///< [batch or 1, heads or 1, queries or 1, keys], to be added; or undefined
  bool causal;
};

Masks masks_of(const HeadsCall& call, const Tensor& query, int64_t heads, int64_t keys) {
  const int64_t queries = query.size(0), batch = query.size(1);
  Masks masks{{}, call.is_causal && !call.attn_mask.defined()};
  if (const Tensor& given = call.attn_mask; given.defined()) {
    const Tensor mask = added_to_scores("attn_mask", given, query.dtype());
    const bool each = given.dim() == 3;
    const bool fits = given.shape() == (each ? Dims{batch * heads, queries, keys} : Dims{queries, keys});
    expect_shape("attn_mask", given, fits, "[{}, {}] or [{}, {}, {}]", queries, keys, batch * heads, queries, keys);
    masks.scores = each ? mask.view({batch, heads, queries, keys}) : mask.unsqueeze(0).unsqueeze(0);
  }
  if (Tensor given = call.key_padding_mask; given.defined()) {
    if (given.dim() == 1) given = given.unsqueeze(0);
    expect_shape("key_padding_mask", given, {batch, keys});
    const Tensor mask = added_to_scores("key_padding_mask", given, query.dtype()).unsqueeze(1).unsqueeze(1);
    masks.scores = masks.scores.defined() ? masks.scores + mask : mask;
  }
  return masks;
}

struct Projected {
  Tensor query, key, value;
};

Projected project(const Tensor& query, const Tensor& key, const Tensor& value, const HeadsParameters& w) {
  const int64_t width = w.out_proj_weight.size(1);
  if (w.in_proj_weight.defined() && query.impl() == key.impl() && key.impl() == value.impl()) {
    const std::vector<Tensor> all = linear(query, w.in_proj_weight, w.in_proj_bias).split(width, -1);
    return {all[0], all[1], all[2]};
  }
  const Tensor* const weights[] = {&w.q_proj_weight, &w.k_proj_weight, &w.v_proj_weight};
  const auto part = [&](const Tensor& x, int i) {
    const Tensor weight = w.in_proj_weight.defined() ? w.in_proj_weight.narrow(0, i * width, width) : *weights[i];
    const Tensor bias = w.in_proj_bias.defined() ? w.in_proj_bias.narrow(0, i * width, width) : Tensor();
    return linear(x, weight, bias);
  };
  return {part(query, 0), part(key, 1), part(value, 2)};
}

}  // namespace

HeadsResult multi_head_attention_forward(const Tensor& query, const Tensor& key, const Tensor& value, int64_t heads,
                                         const HeadsParameters& parameters, const HeadsCall& call, double p,
                                         Location where) {
  const CallScope scope("multi_head_attention_forward", where);
  if (WEFT_UNLIKELY(autocasting())) {
    HeadsParameters lower = parameters;
    for (Tensor* t :
         {&lower.in_proj_weight, &lower.q_proj_weight, &lower.k_proj_weight, &lower.v_proj_weight, &lower.in_proj_bias,
          &lower.bias_k, &lower.bias_v, &lower.out_proj_weight, &lower.out_proj_bias}) {
      *t = detail::lowered(*t);
    }
    const Tensor q = detail::lowered(query), k = key.impl() == query.impl() ? q : detail::lowered(key),
                 v = value.impl() == key.impl() ? k : detail::lowered(value);
    const detail::AutocastModeGuard off({});
    return multi_head_attention_forward(q, k, v, heads, lower, call, p, where);
  }
  const int64_t width = checked(parameters.out_proj_weight).dim() == 2 ? parameters.out_proj_weight.size(1) : 0;
  const bool single = query.defined() && query.dim() == 2;
  for (const Tensor* t : {&query, &key, &value}) {
    if (!t->defined() || t->dim() != (single ? 2 : 3)) {
      raise<ShapeError>({.problem = "query, key and value are not [length, batch, width], or all [length, width]",
                         .details = t->defined() ? t->shape().text() : "undefined"});
    }
  }
  const auto steps_first = [&](const Tensor& t) { return single ? t.unsqueeze(1) : t; };
  const bool same = query.impl() == key.impl() && key.impl() == value.impl();
  const Tensor q0 = steps_first(query), k0 = same ? q0 : steps_first(key), v0 = same ? q0 : steps_first(value);
  if (k0.size(0) != v0.size(0) || k0.size(1) != v0.size(1) || q0.size(1) != k0.size(1)) {
    raise<ShapeError>({.problem = "query, key and value do not fit each other",
                       .details = fmt::format("query {}, key {}, value {}", query.shape().text(), key.shape().text(),
                                              value.shape().text())});
  }
  if (heads < 1 || width < 1 || width % heads != 0) {
    raise<ValueError>({.problem = fmt::format("a width of {} cannot be split over {} heads", width, heads)});
  }
  const int64_t queries = q0.size(0), batch = q0.size(1);
  Masks masks = masks_of(call, q0, heads, k0.size(0));
  auto [q, k, v] = project(q0, k0, v0, parameters);
  int64_t more = 0;
  const auto add_row = [&](const Tensor& for_k, const Tensor& for_v) {
    k = cat({k, for_k.expand({1, batch, width})}, 0);
    v = cat({v, for_v.expand({1, batch, width})}, 0);
    ++more;
  };
  if (parameters.bias_k.defined()) add_row(parameters.bias_k, parameters.bias_v);
  if (parameters.add_zero_attn) add_row(zeros_like(k.narrow(0, 0, 1)), zeros_like(v.narrow(0, 0, 1)));
  if (more > 0 && masks.scores.defined()) masks.scores = pad(masks.scores, {0, more});
  const Tensor in_q = in_heads(q, heads), in_k = in_heads(k, heads), in_v = in_heads(v, heads);
  Tensor mixed, weights;
  if (call.need_weights) {
    if (masks.causal) {
      const Tensor hidden = triu(ones({queries, in_k.size(2)}, {DType::boolean, q.device()}), 1);
      const Tensor mask = added_to_scores("attn_mask", hidden, q.dtype());
      masks.scores = masks.scores.defined() ? masks.scores + mask : mask;
    }
    Tensor scores = matmul(in_q / std::sqrt(static_cast<double>(width / heads)), in_k.transpose(-2, -1));
    if (masks.scores.defined()) scores = scores + masks.scores;
    weights = dropout(scores.numel() == 0 ? softmax(scores, -1) : softmax_of_seen(scores), p);
    mixed = matmul(weights, in_v);
    if (call.average_attn_weights) weights = mean(weights, {1});
    if (single) weights = weights.squeeze(0);
  } else {
    mixed =
        scaled_dot_product_attention(in_q, in_k, in_v, {.mask = masks.scores, .dropout_p = p, .causal = masks.causal});
  }
  const Tensor joined = mixed.permute({2, 0, 1, 3}).reshape({queries, batch, width});
  const Tensor out = linear(joined, parameters.out_proj_weight, parameters.out_proj_bias);
  return {single ? out.squeeze(1) : out, weights};
}

}  // namespace weft
