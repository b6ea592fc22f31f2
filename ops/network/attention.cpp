#include "../attention.hpp"

#include "../create.hpp"
#include "../detail/attention.hpp"
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"

namespace weft {

namespace {

using detail::AttentionOperands;

constexpr const char* op = "scaled_dot_product_attention";

[[noreturn]] void raise_shapes(const std::string& problem, const Tensor& q, const Tensor& k, const Tensor& v) {
  detail::raise_attention_shapes(problem, "q is [..., L, E], k [..., S, E], v [..., S, Ev]", q, k, v);
}

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  detail::check_attention_types(q, k, v, mask);
  if (q.dim() < 2 || k.dim() < 2 || v.dim() < 2) raise_shapes("q, k and v need two dimensions or more", q, k, v);
  if (q.size(-1) != k.size(-1)) raise_shapes("queries and keys differ in width", q, k, v);
  if (k.size(-2) != v.size(-2)) raise_shapes("keys and values differ in number", q, k, v);
}

Dims leading(const Tensor& t) { return Dims(t.sizes().first(static_cast<size_t>(t.dim() - 2))); }

Dims with_last(Dims batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// Reshapes [..., L, E], with leading sizes that broadcast to `batch`, to [all but the last of batch, the last, L, E].
Tensor as_4d(Tensor t, Dims wanted) {
  while (wanted.size() < 2) wanted.insert(0, 1);
  while (t.dim() < wanted.size() + 2) t = t.unsqueeze(0);
  const int64_t rows = t.size(-2), columns = t.size(-1), inner = wanted[wanted.size() - 1];
  int64_t outer = 1;
  for (int i = 0; i + 1 < wanted.size(); ++i) outer *= wanted[i];
  if (wanted.size() > 2) {
    wanted[wanted.size() - 1] = t.size(-3);
    t = t.expand(with_last(wanted, rows, columns)).reshape({outer, t.size(-3), rows, columns});
  }
  const Dims sizes{outer, inner, rows, columns};
  return t.shape() == sizes ? t : t.expand(sizes);
}

// Whether k and v have fewer heads than q, each for several of q's.
bool shares_heads(const Tensor& q, const Tensor& k, const Tensor& v, bool enable_gqa) {
  if (!enable_gqa || q.dim() < 3 || k.dim() < 3 || v.dim() < 3) return false;
  const int64_t heads = q.size(-3), groups = k.size(-3);
  if (groups != v.size(-3) || groups == 0 || heads % groups != 0) {
    raise_shapes("the heads of k and v must be equal in number and divide those of q", q, k, v);
  }
  return heads != groups;
}

Dims joined_batch(const Tensor& q, const Tensor& k, const Tensor& v, bool sharing) {
  std::optional<Dims> batch = leading(q);
  for (const Tensor* t : {&k, &v}) {
    Dims own = leading(*t);
    if (sharing) own[own.size() - 1] = q.size(-3);
    if (batch) batch = broadcast(*batch, own);
  }
  if (!batch) raise_shapes("batch dimensions do not broadcast", q, k, v);
  return *batch;
}

void check_mask(const Tensor& mask, const Dims& scores) {
  const auto joined = broadcast(scores, mask.sizes());
  if (joined && *joined == scores) return;
  raise<ShapeError>({.problem = fmt::format("a mask of shape {} does not broadcast to the scores' {}",
                                            mask.shape().text(), scores.text())});
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                    Location where) {
  const CallScope call(op, where);
  WEFT_IN_LOWER(scaled_dot_product_attention, q, k, v, options, where);
  const Tensor& mask = options.mask;
  check_operands(q, k, v, mask);
  detail::check_probability("dropout_p", options.dropout_p);
  // A device's kernel reads 16-bit floats as they are.
  const DType wide = compute_type(q.dtype()), kept = q.device().is_cpu() ? wide : q.dtype();
  const bool sharing = shares_heads(q, k, v, options.enable_gqa);
  const Dims batch = joined_batch(q, k, v, sharing);
  Dims key_batch = batch;
  if (sharing) key_batch[key_batch.size() - 1] = k.size(-3);
  AttentionOperands in{as_4d(q.to(kept), batch), as_4d(k.to(kept), key_batch), as_4d(v.to(kept), key_batch)};
  if (mask.defined()) {
    check_mask(mask, with_last(batch, q.size(-2), k.size(-2)));
    Tensor bias = detail::additive_mask(mask, wide);
    while (bias.dim() < 2) bias = bias.unsqueeze(0);
    bias = as_4d(bias, batch);
    in.mask = bias.expand({bias.size(0), bias.size(1), q.size(-2), k.size(-2)});
  }
  in.plan.scale = detail::attention_scale(options.scale, q.size(-1));
  if (options.causal) in.plan.after = 0;
  const detail::AttentionDemands demands{.dropout = options.dropout_p != 0, .mask_gradient = should_record(in.mask)};
  const Tensor out = (detail::takes_kernel(AttentionBackend::automatic, in, demands)
                          ? detail::attention_by_kernel(in)
                          : detail::attention_by_ops(in, options.dropout_p).output)
                         .to(q.dtype());
  const Dims result = with_last(batch, q.size(-2), v.size(-1));
  return out.shape() == result ? out : out.view(result);
}

namespace {

std::vector<Values> samples(SampleMaker& make) {
  return {
      {make.tensor({2, 2, 3, 4}), make.tensor({2, 2, 5, 4}), make.tensor({2, 2, 5, 4})},
      {make.tensor({1, 2, 4, 3}), make.tensor({1, 2, 4, 3}), make.tensor({1, 2, 4, 2}), std::monostate{}, 0.0, true},
      {make.tensor({3, 4}), make.tensor({5, 4}), make.tensor({5, 2}), make.mask({3, 5})},
      {make.tensor({1, 4, 3, 2}), make.tensor({1, 2, 3, 2}), make.tensor({1, 2, 3, 2}), std::monostate{}, 0.0, false,
       0.5, true},
      {make.tensor({2, 0, 4}), make.tensor({2, 3, 4}), make.tensor({2, 3, 4})}};
}

Tensor call_boxed_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double dropout_p,
                            bool causal, std::optional<double> scale, bool enable_gqa) {
  return scaled_dot_product_attention(q, k, v, {mask, dropout_p, causal, scale, enable_gqa},
                                      detail::current_call.where);
}

/// The word of a mask [..., L, S], from the right.
std::string mask_word(const Tensor& mask, const std::string& scores) {
  std::string out = parts::uncut(mask);
  for (int d = 1; d <= std::min(mask.dim(), static_cast<int>(scores.size())); ++d) {
    if (mask.size(-d) != 1) out[out.size() - static_cast<size_t>(d)] = scores[scores.size() - static_cast<size_t>(d)];
  }
  return out;
}

/// Batches and heads by themselves; queries, too, where each sees all keys; and the width of the values.
Partition attended(const WholeCall& call) {
  const Tensor q = call.tensor("q"), k = call.tensor("k"), v = call.tensor("v"), mask = call.tensor("mask");
  const bool shared = call.flag("enable_gqa") && q.dim() > 2 && k.dim() > 2 && q.size(-3) != k.size(-3);
  std::vector<Dims> batches;
  for (const Tensor* t : {&q, &k, &v}) {
    Dims batch(std::span(t->shape().data(), static_cast<size_t>(t->dim() - 2)));
    if (shared) batch[batch.size() - 1] = q.size(-3);
    batches.push_back(batch);
  }
  std::string words = broadcast_notation(batches);
  const std::string batch = words.substr(words.find("->") + 2);
  std::vector<std::string> in;
  for (size_t i = 0; i < 3; ++i) {
    in.push_back(words.substr(0, words.find_first_of(",-")));
    words.erase(0, in[i].size() + 1);
  }
  const std::string length = call.flag("causal") ? "1" : "l";
  in[0] += length + "1", in[1] += "11", in[2] += "1w";
  if (mask.defined()) in.push_back(mask_word(mask, batch + length + "1"));
  Partition rule{.letters = parts::notation(in, std::vector{batch + length + "w"})};
  if (shared) rule.units.emplace_back(batch.back(), k.size(-3));
  return rule;
}

constexpr OpRecord records[] = {
    {op,
     "scaled_dot_product_attention(q|query, k|key, v|value, mask|attn_mask=None, dropout_p=0.0, "
     "causal|is_causal=False, "
     "*, scale=None, enable_gqa=False)",
     "softmax(scale * q @ k^T + mask) @ v for q [..., L, E], k [..., S, E], v [..., S, Ev]. mask is bool (true takes "
     "part) or additive; causal lets query i see keys 0 ... i. A query that sees no key gives zeros.",
     OpFacts(true, Autocast::lower), OpRecord::Domain::floating, samples, attended,
     detail::boxed<call_boxed_attention>},
};

}  // namespace

std::span<const OpRecord> attention_records() { return records; }

}  // namespace weft
