#include "../attention.hpp"

#include <cmath>
#include <limits>

#include "../create.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../random.hpp"
#include "../detail/masked.hpp"
#include "../detail/autocast.hpp"
#include "../detail/records.hpp"
#include "../reduce.hpp"
#include "../detail/reducing.hpp"
#include "../softmax.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

constexpr const char* op = "scaled_dot_product_attention";
constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// Operands as [batch, heads, length, width]; an undefined mask is absent, else it is additive and of the compute type.
struct Operands {
  Tensor q, k, v, mask;
  AttentionSettings settings;
};

Operands widened(const Operands& in) {
  return {to_compute_type(in.q), to_compute_type(in.k), to_compute_type(in.v), in.mask, in.settings};
}

// True where a query may see a key: keys up to its own position.
Tensor causal_mask(int64_t queries, int64_t keys, Device device) {
  const Tensor i = arange(0, queries, 1, {DType::i64, device}).unsqueeze(1);
  const Tensor j = arange(0, keys, 1, {DType::i64, device});
  return i >= j;
}

// softmax over the keys; rows that see none are zero, and pass no gradient.
Tensor weights_by_ops(const Operands& in) {
  Tensor scores = matmul(in.q * in.settings.scale, in.k.transpose(-2, -1));
  if (in.mask.defined()) scores = std::move(scores) + in.mask;
  const bool all_seen = !in.settings.causal && !in.mask.defined();
  if (all_seen || scores.numel() == 0) return softmax(scores, -1);
  if (in.settings.causal) {
    const Tensor seen = causal_mask(in.q.size(-2), in.k.size(-2), in.q.device());
    scores = weft::where(seen, scores, minus_infinity);
  }
  return softmax_of_seen(scores);
}

struct AttentionBackward {
  Saved q, k, v;
  SavedOutput output;
  Tensor log_sum_exp;
  Saved mask;
  AttentionSettings settings;

  // dv = wᵀ g;  ds = w (g vᵀ - rowsum(w g vᵀ)) scale;  dq = ds k;  dk = dsᵀ q
  void by_ops(Node& self, const Tensor& g, Tensor* outgoing) const {
    const Tensor& query = q.get(self);
    const DType dtype = query.dtype();
    const Operands in =
        widened({query, k.get(self), v.get(self), mask.defined() ? mask.get(self) : Tensor(), settings});
    const Tensor w = weights_by_ops(in);
    if (self.wants(2)) outgoing[2] = matmul(w.transpose(-2, -1), g).to(dtype);
    if (!self.wants(0) && !self.wants(1)) return;
    const Tensor product = matmul(g, in.v.transpose(-2, -1)) * w;
    const Tensor ds = (product - w * sum(product, -1, true)) * settings.scale;
    if (self.wants(0)) outgoing[0] = matmul(ds, in.k).to(dtype);
    if (self.wants(1)) outgoing[1] = matmul(ds.transpose(-2, -1), in.q).to(dtype);
  }

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& g = incoming[0];
    const auto kernel = kernels(g.raw_view()).attention_gradient;
    if (recording() || kernel == nullptr) return by_ops(self, g, outgoing);
    const Tensor &query = q.get(self), &key = k.get(self), &value = v.get(self);
    outgoing[0] = make_like(query);
    outgoing[1] = make_like(key);
    outgoing[2] = make_like(value);
    kernel(outgoing[0].raw_view(), outgoing[1].raw_view(), outgoing[2].raw_view(), g.raw_view(),
           output.get(self).raw_view(), log_sum_exp.raw_view(), query.raw_view(), key.raw_view(), value.raw_view(),
           mask.defined() ? mask.get(self).raw_view() : View(), settings);
  }
};

Tensor attention_by_ops(const Operands& in, double dropout_p) {
  const Tensor w = weights_by_ops(in);
  return matmul(dropout(w, dropout_p), in.v);
}

Tensor attention_by_kernel(const Operands& in) {
  const auto sizes = in.q.sizes();
  const DType wide = compute_type(in.q.dtype());
  const Tensor out = make(Dims{sizes[0], sizes[1], sizes[2], in.v.sizes()[3]}, wide, in.q.device());
  const Tensor log_sum_exp = make(Dims{sizes[0], sizes[1], sizes[2]}, wide, in.q.device());
  kernels(in.q.raw_view())
      .attention(out.raw_view(), log_sum_exp.raw_view(), in.q.raw_view(), in.k.raw_view(), in.v.raw_view(),
                 in.mask.defined() ? in.mask.raw_view() : View(), in.settings);
  if (should_record(in.q, in.k, in.v)) {
    record(out,
           AttentionBackward{Saved(in.q), Saved(in.k), Saved(in.v), SavedOutput(out), log_sum_exp,
                             in.mask.defined() ? Saved(in.mask) : Saved(), in.settings},
           in.q, in.k, in.v);
  }
  return out;
}

[[noreturn]] void raise_shapes(const std::string& problem, const Tensor& q, const Tensor& k, const Tensor& v) {
  raise<ShapeError>({.problem = problem,
                     .details = fmt::format("q {}, k {}, v {}", q.shape().text(), k.shape().text(), v.shape().text()),
                     .remedy = "q is [..., L, E], k [..., S, E], v [..., S, Ev]"});
}

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  for (const Tensor* t : {&q, &k, &v}) check_floating(checked(*t));
  check_same_device({&q, &k, &v, &mask});
  if (k.dtype() != q.dtype() || v.dtype() != q.dtype()) {
    raise<DTypeError>({.problem = fmt::format("q, k and v must have one dtype, not {}, {} and {}", name(q.dtype()),
                                              name(k.dtype()), name(v.dtype()))});
  }
  if (q.dim() < 2 || k.dim() < 2 || v.dim() < 2) raise_shapes("q, k and v need two dimensions or more", q, k, v);
  if (q.size(-1) != k.size(-1)) raise_shapes("queries and keys differ in width", q, k, v);
  if (k.size(-2) != v.size(-2)) raise_shapes("keys and values differ in number", q, k, v);
  if (mask.defined() && mask.dtype() != DType::boolean &&
      (!is_floating(mask.dtype()) || is_storage_only(mask.dtype()))) {
    raise<DTypeError>({.problem = fmt::format("a mask is bool or floating, not {}", name(mask.dtype()))});
  }
}

Dims leading(const Tensor& t) { return Dims(t.sizes().first(static_cast<size_t>(t.dim() - 2))); }

Dims with_last(Dims batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// [..., L, E], whose leading sizes broadcast to `batch`, as [all but the last of batch, the last, L, E].
Tensor as_4d(Tensor t, const Dims& batch) {
  Dims wanted = batch;
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

// Splits heads into groups: [..., heads, L, E] → [..., groups, heads / groups, L, E]; one head stands for all.
Tensor grouped(const Tensor& t, int64_t groups) {
  if (t.dim() < 3) return t;
  const int64_t heads = t.size(-3);
  Dims sizes = t.shape();
  sizes[sizes.size() - 3] = heads == 1 ? 1 : groups;
  sizes.insert(sizes.size() - 2, heads == 1 ? 1 : heads / groups);
  return t.reshape(sizes);
}

Tensor additive(const Tensor& mask, DType dtype) {
  if (mask.dtype() != DType::boolean) return mask.to(dtype);
  const Tensor shut = full({}, minus_infinity, {dtype, mask.device()});
  return weft::where(mask, 0.0, shut);
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

Dims joined_batch(const Tensor& q, const Tensor& k, const Tensor& v) {
  auto batch = broadcast(leading(q), leading(k));
  if (batch) batch = broadcast(*batch, leading(v));
  if (!batch) raise_shapes("batch dimensions do not broadcast", q, k, v);
  return *batch;
}

void check_mask(const Tensor& mask, const Dims& scores) {
  const auto joined = broadcast(scores, mask.sizes());
  if (joined && *joined == scores) return;
  raise<ShapeError>({.problem = fmt::format("a mask of shape {} does not broadcast to the scores' {}",
                                            mask.shape().text(), scores.text())});
}

/// The result in the compute type, so that its gradient's sums are of numbers that were not rounded.
Tensor attention(const Operands& in, double dropout_p) {
  const bool by_kernel = dropout_p == 0 && kernels(in.q.raw_view()).attention != nullptr && in.q.numel() != 0 &&
                         in.v.numel() != 0 && in.k.numel() != 0 && !should_record(in.mask);
  return by_kernel ? attention_by_kernel(in) : attention_by_ops(widened(in), dropout_p);
}

}  // namespace

Tensor softmax_of_seen(const Tensor& scores) {
  const Tensor blind = amax(scores.detach(), -1, true) == minus_infinity;
  return masked_fill(softmax(masked_fill(scores, blind, 0), -1), blind, 0);
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                    Location where) {
  const CallScope call(op, where);
  WEFT_IN_LOWER(scaled_dot_product_attention, q, k, v, options, where);
  const Tensor& mask = options.mask;
  check_operands(q, k, v, mask);
  if (!(options.dropout_p >= 0 && options.dropout_p <= 1)) {
    raise<ValueError>({.problem = fmt::format("dropout_p {} is not in [0, 1]", options.dropout_p)});
  }
  // A device's kernel reads 16-bit floats as they are.
  const DType wide = compute_type(q.dtype()), kept = q.device().is_cpu() ? wide : q.dtype();
  Tensor query = q.to(kept), key = k.to(kept), value = v.to(kept), bias = mask;
  const bool sharing = shares_heads(q, k, v, options.enable_gqa);
  Dims batch = joined_batch(q, sharing ? q : k, sharing ? q : v);
  const Dims result = with_last(batch, q.size(-2), v.size(-1));
  if (mask.defined()) {
    check_mask(mask, with_last(batch, q.size(-2), k.size(-2)));
    bias = additive(mask, wide);
  }
  if (sharing) {
    const int64_t groups = k.size(-3);
    query = grouped(query, groups);
    key = key.unsqueeze(-3);
    value = value.unsqueeze(-3);
    if (bias.defined()) bias = grouped(bias, groups);
    batch = joined_batch(query, key, value);
  }
  while (bias.defined() && bias.dim() < 2) bias = bias.unsqueeze(0);
  Operands in{as_4d(query, batch), as_4d(key, batch), as_4d(value, batch), bias, {}};
  if (bias.defined()) {
    bias = as_4d(bias, batch);
    in.mask = bias.expand({bias.size(0), bias.size(1), q.size(-2), k.size(-2)});
  }
  const double width = static_cast<double>(std::max<int64_t>(q.size(-1), 1));
  in.settings = {options.scale.value_or(1 / std::sqrt(width)), options.causal};
  const Tensor out = attention(in, options.dropout_p).to(q.dtype());
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
     true, OpRecord::Domain::floating, samples, attended, detail::boxed<call_boxed_attention>},
};

}  // namespace

std::span<const OpRecord> attention_records() { return records; }

}  // namespace weft
