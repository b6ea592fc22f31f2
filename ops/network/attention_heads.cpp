// attention() and attention_varlen(): heads inside, causality from the end.
#include <cmath>

#include "../create.hpp"
#include "../detail/attention.hpp"
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

using detail::AttentionDemands;
using detail::AttentionOperands;
using detail::HeadSizes;
using detail::PackedSequence;

constexpr const char* op = "attention";
constexpr const char* varlen = "attention_varlen";

/// The kernel's operands: on the CPU in the compute type.
Tensor kept(const Tensor& t) { return t.device().is_cpu() ? to_compute_type(t) : t; }

Tensor checked_mask(const Tensor& mask, const Dims& scores, DType wide) {
  const auto joined = broadcast(scores, mask.sizes());
  if (!joined || *joined != scores) {
    raise<ShapeError>({.problem = fmt::format("a mask of shape {} does not broadcast to the scores' {}",
                                              mask.shape().text(), scores.text())});
  }
  return detail::additive_mask(mask, wide).expand(scores);
}

AttentionOperands checked_operands(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArguments& a) {
  detail::check_attention_types(q, k, v, a.mask);
  const HeadSizes sizes = detail::check_heads(q, k, v, 4, "q is [B, Sq, H, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv]");
  detail::check_probability("dropout", a.dropout);
  AttentionOperands in{q, k, v};
  in.heads_inside = true;
  in.slopes = detail::checked_slopes(a.alibi_slopes, q, q.size(0), sizes.heads);
  if (a.mask.defined()) {
    in.mask = checked_mask(a.mask, {q.size(0), sizes.heads, sizes.queries, sizes.keys}, compute_type(q.dtype()));
  }
  for (Tensor* t : {&in.q, &in.k, &in.v}) *t = kept(*t);
  in.plan.scale = detail::attention_scale(a.scale, q.size(-1));
  detail::set_band(in.plan, a.causal, a.window);
  return in;
}

AttentionDemands demands_of(const AttentionOperands& in, double dropout, bool weights) {
  return {weights, dropout != 0, should_record(in.mask), should_record(in.slopes)};
}

WeightedAttention attend(const AttentionOperands& in, double dropout, AttentionBackend backend, bool weights,
                         DType dtype) {
  if (detail::takes_kernel(backend, in, demands_of(in, dropout, weights))) {
    return {detail::attention_by_kernel(in).to(dtype), {}};
  }
  const detail::AttentionOutput out = detail::attention_by_ops(in, dropout);
  return {out.output.to(dtype), weights ? out.weights.to(dtype) : Tensor()};
}

// ---- packed sequences -----------------------------------------------------------------------------------------------

std::vector<int64_t> read_offsets(const char* what, const Tensor& offsets, int64_t rows) {
  const auto refuse = [&](std::vector<int64_t> numbers) {
    raise<ValueError>({.problem = fmt::format("{} must ascend from 0 to {}, the number of rows", what, rows),
                       .details = fmt::format("{} of them", numbers.size())});
  };
  const std::vector<int64_t> numbers = offsets.to(Device()).to(DType::i64).to_vector<int64_t>();
  int64_t last = 0;
  for (const int64_t n : numbers) {
    if (n < last) refuse(numbers);
    last = n;
  }
  if (numbers.front() != 0 || last != rows) refuse(numbers);
  return numbers;
}

void check_offsets(const char* what, const Tensor& offsets) {
  checked(offsets);
  if (is_floating(offsets.dtype()) || offsets.dtype() == DType::boolean) {
    raise_dtype(what, "integers", offsets.dtype());
  }
  expect_shape(what, offsets, offsets.dim() == 1 && offsets.size(0) > 0, "[sequences + 1]");
}

std::vector<PackedSequence> read_sequences(const Tensor& q, const Tensor& k, const Tensor& of_q, const Tensor& of_k) {
  const std::vector<int64_t> begins = read_offsets("cu_seqlens_q", of_q, q.size(0));
  const std::vector<int64_t> key_begins = read_offsets("cu_seqlens_k", of_k, k.size(0));
  std::vector<PackedSequence> out;
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    out.push_back({begins[i], begins[i + 1] - begins[i], key_begins[i], key_begins[i + 1] - key_begins[i]});
  }
  return out;
}

}  // namespace

std::vector<double> alibi_slopes(int64_t n, Location where) {
  const CallScope call("alibi_slopes", where);
  if (n < 1) raise<ValueError>({.problem = fmt::format("{} heads have no slopes", n)});
  int64_t power = 1;
  while (power <= n / 2) power *= 2;
  std::vector<double> slopes;
  for (int64_t i = 1; i <= power; ++i) slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / power));
  for (int64_t i = 1; std::ssize(slopes) < n; i += 2) {
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(i) / power));
  }
  return slopes;
}

const char* name(AttentionBackend backend) {
  constexpr const char* names[] = {"auto", "math", "fused"};
  return names[static_cast<int>(backend)];
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArguments& arguments,
                 Location where) {
  const CallScope call(op, where);
  WEFT_IN_LOWER(attention, q, k, v, arguments, where);
  const AttentionOperands in = checked_operands(q, k, v, arguments);
  return attend(in, arguments.dropout, arguments.backend, false, q.dtype()).output;
}

WeightedAttention attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionArguments& arguments, Location where) {
  const CallScope call(op, where);
  WEFT_IN_LOWER(attention_with_weights, q, k, v, arguments, where);
  const AttentionOperands in = checked_operands(q, k, v, arguments);
  return attend(in, arguments.dropout, arguments.backend, true, q.dtype());
}

std::vector<AttentionBackendState> attention_backends(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const AttentionArguments& arguments, bool return_weights,
                                                      Location where) {
  const CallScope call("attention_backends", where);
  const AttentionOperands in = checked_operands(q, k, v, arguments);
  return detail::attention_backends(in.q, demands_of(in, arguments.dropout, return_weights));
}

Tensor attention_varlen(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cu_seqlens_q,
                        const Tensor& cu_seqlens_k, const PackedAttentionArguments& a, Location where) {
  const CallScope call(varlen, where);
  WEFT_IN_LOWER(attention_varlen, q, k, v, cu_seqlens_q, cu_seqlens_k, a, where);
  detail::check_attention_types(q, k, v, {});
  const HeadSizes sizes = detail::check_heads(q, k, v, 3, "q is [Tq, H, D], k [Tk, Hkv, D], v [Tk, Hkv, Dv]");
  detail::check_probability("dropout", a.dropout);
  check_offsets("cu_seqlens_q", cu_seqlens_q);
  check_offsets("cu_seqlens_k", cu_seqlens_k);
  const int64_t count = cu_seqlens_q.size(0) - 1;
  if (cu_seqlens_k.size(0) - 1 != count) {
    raise<ShapeError>(
        {.problem = fmt::format("{} sequences of queries and {} of keys", count, cu_seqlens_k.size(0) - 1)});
  }
  AttentionOperands in{kept(q).unsqueeze(0), kept(k).unsqueeze(0), kept(v).unsqueeze(0)};
  in.heads_inside = true;
  in.slopes = detail::checked_slopes(a.alibi_slopes, q, count, sizes.heads);
  in.plan.scale = detail::attention_scale(a.scale, q.size(-1));
  detail::set_band(in.plan, a.causal, a.window);
  // On meta there are no offsets to read, and one sequence has the shape of several.
  if (!is_meta(q) && !is_meta(cu_seqlens_q) && !is_meta(cu_seqlens_k)) {
    detail::pack_sequences(in, read_sequences(q, k, cu_seqlens_q, cu_seqlens_k));
    if (in.sequences.empty()) in.slopes = Tensor();
  } else if (in.slopes.defined()) {
    in.slopes = count > 0 ? in.slopes.narrow(0, 0, 1) : Tensor();
  }
  return attend(in, a.dropout, a.backend, false, q.dtype()).output.squeeze(0);
}

// ---- records --------------------------------------------------------------------------------------------------------

namespace {

AttentionWindow window_of(const std::optional<Dims>& sizes) {
  if (!sizes || sizes->empty()) return {};
  if (sizes->size() == 2) return {(*sizes)[0], (*sizes)[1]};
  raise_value("window", "2 sizes, (left, right)", sizes->size());
}

AttentionBackend backend_of(const std::string& text) {
  for (const auto b : {AttentionBackend::automatic, AttentionBackend::math, AttentionBackend::fused}) {
    if (text == name(b)) return b;
  }
  raise_value("backend", "'auto', 'math' or 'fused'", in_quotes(text));
}

Value call_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
                     std::optional<double> scale, double dropout, const Tensor& slopes,
                     const std::optional<Dims>& window, const std::string& backend, bool return_weights,
                     Location where) {
  const CallScope call(op, where);
  const AttentionArguments arguments{mask, causal, scale, dropout, slopes, window_of(window), backend_of(backend)};
  if (!return_weights) return attention(q, k, v, arguments, where);
  WeightedAttention out = attention_with_weights(q, k, v, arguments, where);
  return std::vector<Tensor>{std::move(out.output), std::move(out.weights)};
}

Tensor call_varlen(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cu_seqlens_q,
                   const Tensor& cu_seqlens_k, bool causal, std::optional<double> scale, double dropout,
                   const Tensor& slopes, const std::optional<Dims>& window, const std::string& backend,
                   Location where) {
  const CallScope call(varlen, where);
  return attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k,
                          {causal, scale, dropout, slopes, window_of(window), backend_of(backend)}, where);
}

std::vector<Values> samples(SampleMaker& make) {
  const std::monostate none;
  const auto window = [](int64_t left, int64_t right) { return Value(Dims{left, right}); };
  return {
      {make.tensor({2, 3, 2, 4}), make.tensor({2, 5, 2, 4}), make.tensor({2, 5, 2, 4})},
      {make.tensor({1, 2, 2, 3}), make.tensor({1, 4, 2, 3}), make.tensor({1, 4, 2, 2}), none, true},
      {make.tensor({1, 3, 4, 2}), make.tensor({1, 4, 2, 2}), make.tensor({1, 4, 2, 3}), make.mask({3, 4}), true, 0.5},
      {make.tensor({1, 3, 2, 2}), make.tensor({1, 3, 1, 2}), make.tensor({1, 3, 1, 2}), none, false, none, 0.0,
       make.tensor({2}, 0.1, 0.5), window(1, 1)},
      {make.tensor({1, 2, 2, 2}), make.tensor({1, 3, 1, 2}), make.tensor({1, 3, 1, 2}), make.tensor({2, 1, 3}), true,
       none, 0.0, none, none, "math", true},
      {make.tensor({1, 2, 1, 2}), make.tensor({1, 0, 1, 2}), make.tensor({1, 0, 1, 2})}};
}

std::vector<Values> varlen_samples(SampleMaker& make) {
  const auto offsets = [&](const std::vector<int64_t>& numbers) { return tensor(numbers).to(make.device()); };
  // The same in 16 bits.
  const Tensor slopes = tensor({0.5, 0.25, 0.125, 0.0625}).to(make.dtype()).to(make.device());
  return {
      {make.tensor({5, 2, 3}), make.tensor({6, 2, 3}), make.tensor({6, 2, 2}), offsets({0, 2, 5}), offsets({0, 4, 6})},
      {make.tensor({4, 4, 2}), make.tensor({4, 2, 2}), make.tensor({4, 2, 2}), offsets({0, 1, 1, 4}),
       offsets({0, 1, 1, 4}), true, 0.4, 0.0, slopes}};
}

/// The word of a mask [..., Sq, Sk], from the right.
std::string mask_word(const Tensor& mask, const std::string& scores) {
  std::string out = parts::uncut(mask);
  for (int d = 1; d <= std::min(mask.dim(), static_cast<int>(scores.size())); ++d) {
    if (mask.size(-d) != 1) out[out.size() - static_cast<size_t>(d)] = scores[scores.size() - static_cast<size_t>(d)];
  }
  return out;
}

/// Batches and heads by themselves; queries, too, where their places do not count; and the width of the values.
Partition attended(const WholeCall& call) {
  const Tensor q = call.tensor("q"), k = call.tensor("k"), mask = call.tensor("mask");
  const Tensor slopes = call.tensor("alibi_slopes");
  const bool placed =
      call.flag("causal") || slopes.defined() || !std::holds_alternative<std::monostate>(call["window"]);
  const std::string length = placed ? "1" : "l";
  // Weights do not depend on the width of the values.
  const std::string width = call.flag("return_weights") ? "1" : "w";
  std::vector<std::string> in{"b" + length + "h1", "b1h1", "b1h" + width}, out{"b" + length + 'h' + width};
  if (mask.defined()) in.push_back(mask_word(mask, "bh" + length + "1"));
  if (slopes.defined()) in.emplace_back(slopes.dim() == 2 ? "bh" : "h");
  if (call.flag("return_weights")) out.push_back("bh" + length + "1");
  Partition rule{.letters = parts::notation(in, out)};
  if (q.size(2) != k.size(2)) rule.units.emplace_back('h', k.size(2));
  return rule;
}

/// Shards by heads and by the width of the values, not by rows, which contain the sequences.
Partition packed(const WholeCall& call) {
  const Tensor q = call.tensor("q"), k = call.tensor("k"), slopes = call.tensor("alibi_slopes");
  std::vector<std::string> in{"1h1", "1h1", "1hw", "1", "1"};
  if (slopes.defined()) in.emplace_back(slopes.dim() == 2 ? "1h" : "h");
  Partition rule{.letters = parts::notation(in, std::vector<std::string>{"1hw"})};
  if (q.size(1) != k.size(1)) rule.units.emplace_back('h', k.size(1));
  return rule;
}

constexpr OpRecord records[] = {
    {op,
     "attention(q|query, k|key, v|value, mask|attn_mask=None, causal|is_causal=False, *, scale|softmax_scale=None, "
     "dropout|dropout_p=0.0, alibi_slopes=None, window|window_size=None, backend='auto', return_weights=False)",
     "softmax(scale * q @ k^T + alibi + mask) @ v for q [B, Sq, H, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv]: "
     "[B, Sq, H, Dv], and [B, H, Sq, Sk] weights where wanted. mask is bool (true takes part) or additive; causal lets "
     "query i see keys 0 ... i + Sk - Sq, window (left, right) those around it; alibi_slopes are [H] or [B, H]. A "
     "query "
     "that sees no key gives zeros.",
     OpFacts(true, Autocast::lower), OpRecord::Domain::floating, samples, attended, detail::boxed<call_attention>},
    {varlen,
     "attention_varlen(q|query, k|key, v|value, cu_seqlens_q, cu_seqlens_k, causal|is_causal=False, *, "
     "scale|softmax_scale=None, dropout|dropout_p=0.0, alibi_slopes=None, window|window_size=None, backend='auto')",
     "attention of each of several sequences that follow each other in q [Tq, H, D], k [Tk, Hkv, D] and v "
     "[Tk, Hkv, Dv], and begin where the offsets cu_seqlens say: [Tq, H, Dv].",
     OpFacts(true, Autocast::lower, OpFacts::reads_values), OpRecord::Domain::floating, varlen_samples, packed,
     detail::boxed<call_varlen>},
};

}  // namespace

std::span<const OpRecord> head_attention_records() { return records; }

}  // namespace weft
