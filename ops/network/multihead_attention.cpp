#include <cmath>
#include <limits>

#include "../attention.hpp"
#include "../create.hpp"
#include "../detail/records.hpp"
#include "../detail/common.hpp"
#include "../diagonal.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../matmul.hpp"
#include "../pad.hpp"
#include "../random.hpp"
#include "../reduce.hpp"
#include "../softmax.hpp"

namespace weft {

namespace {

// True is -infinity; floats are what they are.
Tensor added_to_scores(const Tensor& mask, DType dtype) {
  if (mask.dtype() != DType::boolean) return mask.to(dtype);
  return masked_fill(zeros(mask.sizes(), {dtype, mask.device()}), mask, -std::numeric_limits<double>::infinity());
}

// A softmax whose rows of -infinity are zeros.
Tensor weights_of(const Tensor& scores) {
  if (scores.numel() == 0) return softmax(scores, -1);
  const Tensor blind = amax(scores.detach(), -1, true) == -std::numeric_limits<double>::infinity();
  return masked_fill(softmax(masked_fill(scores, blind, 0), -1), blind, 0);
}

// [length, batch, width] as [batch, heads, length, width / heads]
Tensor in_heads(const Tensor& t, int64_t heads) {
  return t.reshape({t.size(0), t.size(1), heads, t.size(2) / heads}).permute({1, 2, 0, 3});
}

struct Masks {
  Tensor scores;  ///< [batch or 1, heads or 1, queries or 1, keys], to be added; or undefined
  bool causal;
};

[[noreturn]] void refuse_shape(const char* what, const Tensor& t, const std::string& wanted) {
  raise<ShapeError>({.problem = fmt::format("{} is {}, not {}", what, t.shape().text(), wanted)});
}

Masks masks_of(const HeadsCall& call, const Tensor& query, int64_t heads, int64_t keys) {
  const int64_t queries = query.size(0), batch = query.size(1);
  Masks masks{{}, call.is_causal && !call.attn_mask.defined()};
  if (const Tensor& given = call.attn_mask; given.defined()) {
    const Tensor mask = added_to_scores(given, query.dtype());
    const bool each = given.dim() == 3;
    if (given.shape() != (each ? Dims{batch * heads, queries, keys} : Dims{queries, keys})) {
      refuse_shape("attn_mask", given,
                   fmt::format("[{}, {}] or [{}, {}, {}]", queries, keys, batch * heads, queries, keys));
    }
    masks.scores = each ? mask.view({batch, heads, queries, keys}) : mask.unsqueeze(0).unsqueeze(0);
  }
  if (Tensor given = call.key_padding_mask; given.defined()) {
    if (given.dim() == 1) given = given.unsqueeze(0);
    if (given.shape() != Dims{batch, keys})
      refuse_shape("key_padding_mask", given, fmt::format("[{}, {}]", batch, keys));
    const Tensor mask = added_to_scores(given, query.dtype()).unsqueeze(1).unsqueeze(1);
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
      const Tensor mask = added_to_scores(hidden, q.dtype());
      masks.scores = masks.scores.defined() ? masks.scores + mask : mask;
    }
    Tensor scores = matmul(in_q / std::sqrt(static_cast<double>(width / heads)), in_k.transpose(-2, -1));
    if (masks.scores.defined()) scores = scores + masks.scores;
    weights = dropout(weights_of(scores), p);
    mixed = matmul(weights, in_v);
    if (call.average_attn_weights) weights = mean(weights, {1});
    if (single) weights = weights.squeeze(0);
  } else {
    mixed = scaled_dot_product_attention(in_q, in_k, in_v, masks.scores, p, masks.causal, {}, false);
  }
  const Tensor joined = mixed.permute({2, 0, 1, 3}).reshape({queries, batch, width});
  const Tensor out = linear(joined, parameters.out_proj_weight, parameters.out_proj_bias);
  return {single ? out.squeeze(1) : out, weights};
}

namespace {

std::vector<Tensor> call_heads(const Tensor& query, const Tensor& key, const Tensor& value, int64_t num_heads,
                               const Tensor& in_proj_weight, const Tensor& in_proj_bias, const Tensor& bias_k,
                               const Tensor& bias_v, bool add_zero_attn, double dropout_p,
                               const Tensor& out_proj_weight, const Tensor& out_proj_bias,
                               const Tensor& key_padding_mask, bool need_weights, const Tensor& attn_mask,
                               const Tensor& q_proj_weight, const Tensor& k_proj_weight, const Tensor& v_proj_weight,
                               bool average_attn_weights, bool is_causal) {
  const HeadsParameters parameters{in_proj_weight, q_proj_weight, k_proj_weight,   v_proj_weight, in_proj_bias,
                                   bias_k,         bias_v,        out_proj_weight, out_proj_bias, add_zero_attn};
  const HeadsCall call{key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal};
  const HeadsResult out = multi_head_attention_forward(query, key, value, num_heads, parameters, call, dropout_p);
  return need_weights ? std::vector<Tensor>{out.output, out.weights} : std::vector<Tensor>{out.output};
}

std::vector<Values> samples(SampleMaker& make) {
  const std::monostate none;
  const auto matrix = [&](const Dims& shape) { return make.tensor(shape, -0.8, 0.8); };
  return {{make.tensor({3, 2, 4}), make.tensor({2, 2, 4}), make.tensor({2, 2, 4}), int64_t{2}, matrix({12, 4}),
           make.tensor({12}), none, none, false, 0.0, matrix({4, 4}), make.tensor({4})},
          {make.tensor({3, 4}), make.tensor({2, 3}), make.tensor({2, 2}), int64_t{2}, none, make.tensor({12}),
           make.tensor({1, 1, 4}), make.tensor({1, 1, 4}), true, 0.0, matrix({4, 4}), none, none, true,
           make.mask({3, 2}), matrix({4, 4}), matrix({4, 3}), matrix({4, 2}), false}};
}

constexpr OpRecord records[] = {
    {"multi_head_attention_forward",
     "multi_head_attention_forward(query, key, value, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, "
     "add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, key_padding_mask=None, need_weights=True, "
     "attn_mask=None, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, average_attn_weights=True, "
     "is_causal=False)",
     "Attention of several heads with its projections: query [length, batch, width], key and value [keys, batch, ...]. "
     "Gives the output, and the weights where they are needed. True in a mask is not attended to; a query that sees no "
     "key gives zeros.",
     true, OpRecord::Domain::floating, samples, detail::boxed<call_heads>},
};

}  // namespace

std::span<const OpRecord> heads_records() { return records; }

}  // namespace weft
