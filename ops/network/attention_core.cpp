// Attention by ops and by the kernel, for operands with checked shapes.
#include "../detail/attention.hpp"

#include <cmath>
#include <limits>

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/masked.hpp"
#include "../detail/reducing.hpp"
#include "../join.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../random.hpp"
#include "../reduce.hpp"
#include "../softmax.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

Tensor softmax_of_seen(const Tensor& scores) {
  const Tensor blind = amax(scores.detach(), -1, true) == -std::numeric_limits<double>::infinity();
  return masked_fill(softmax(masked_fill(scores, blind, 0), -1), blind, 0);
}

namespace detail {

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// Heads first, whole sequences, in the compute type.
AttentionOperands turned(const AttentionOperands& in) {
  AttentionOperands out = in_compute_type(in);
  if (!in.heads_inside) return out;
  for (Tensor* t : {&out.q, &out.k, &out.v}) *t = t->transpose(1, 2);
  out.heads_inside = false;
  return out;
}

/// One sequence of operands with heads first.
AttentionOperands sequence(const AttentionOperands& in, size_t n) {
  const PackedSequence& s = in.sequences[n];
  AttentionOperands out = in;
  out.q = in.q.narrow(2, s.query, s.queries);
  out.k = in.k.narrow(2, s.key, s.keys);
  out.v = in.v.narrow(2, s.key, s.keys);
  if (in.slopes.defined()) out.slopes = in.slopes.narrow(0, static_cast<int64_t>(n), 1);
  out.sequences.clear();
  return out;
}

/// The heads of a group of queries one below the other: [B, H, L, E] → [B, groups, H / groups * L, E]. Products with
/// keys and values of a group are then one product, and their gradients sum over it.
Tensor by_group(const Tensor& t, int64_t groups) {
  const auto sizes = t.sizes();
  if (sizes[1] == groups) return t;
  return t.reshape({sizes[0], groups, groups == 0 ? 0 : sizes[1] / groups * sizes[2], sizes[3]});
}
Tensor by_head(const Tensor& t, const Tensor& like) {
  const auto sizes = like.sizes();
  return t.size(1) == sizes[1] ? t : t.reshape({sizes[0], sizes[1], sizes[2], t.size(-1)});
}

/// The distance from key j to query i at position i + shift: i64 [queries, keys].
Tensor distances(const AttentionOperands& in) {
  const int64_t queries = in.q.size(2), keys = in.k.size(2), shift = in.plan.at_end ? keys - queries : 0;
  const TensorOptions whole{DType::i64, in.q.device()};
  return arange(0, keys, 1, whole) - arange(shift, shift + queries, 1, whole).unsqueeze(1);
}

// softmax over the keys; rows that see none are zero, and pass no gradient.
Tensor weights_by_ops(const AttentionOperands& in) {
  const int64_t groups = in.k.size(1);
  Tensor scores = by_head(matmul(by_group(in.q, groups) * in.plan.scale, in.k.transpose(-2, -1)), in.q);
  const bool open_before = in.plan.before >= AttentionPlan::unlimited;
  const bool open_after = in.plan.after >= AttentionPlan::unlimited, banded = !open_before || !open_after;
  if (in.slopes.defined()) {
    const Tensor slopes = in.slopes.unsqueeze(2).unsqueeze(3);
    scores = std::move(scores) + slopes * distances(in).to(scores.dtype());
  }
  if (in.mask.defined()) scores = std::move(scores) + in.mask;
  if (scores.numel() == 0 || (!banded && !in.mask.defined())) return softmax(scores, -1);
  if (banded) {
    const Tensor away = distances(in);
    Tensor seen = open_after ? away >= -in.plan.before : away <= in.plan.after;
    if (!open_before && !open_after) seen = logical_and(seen, away >= -in.plan.before);
    scores = weft::where(seen, scores, minus_infinity);
  }
  return softmax_of_seen(scores);
}

struct Gradients {
  Tensor q, k, v;
};

// dv = wᵀ g;  ds = w (g vᵀ - rowsum(w g vᵀ)) scale;  dq = ds k;  dk = dsᵀ q
Gradients gradients_by_ops(const AttentionOperands& in, const Tensor& g, bool wants_v, bool wants_q_or_k) {
  Gradients out;
  const int64_t groups = in.k.size(1);
  const Tensor w = weights_by_ops(in), gs = by_group(g, groups);
  if (wants_v) out.v = matmul(by_group(w, groups).transpose(-2, -1), gs);
  if (!wants_q_or_k) return out;
  const Tensor product = by_head(matmul(gs, in.v.transpose(-2, -1)), in.q) * w;
  const Tensor ds = by_group((product - w * sum(product, -1, true)) * in.plan.scale, groups);
  out.q = by_head(matmul(ds, in.k), in.q);
  out.k = matmul(ds.transpose(-2, -1), by_group(in.q, groups));
  return out;
}

Gradients gradients_by_sequence(const AttentionOperands& in, const Tensor& g, bool wants_v, bool wants_q_or_k) {
  if (in.sequences.empty()) return gradients_by_ops(in, g, wants_v, wants_q_or_k);
  std::vector<Tensor> q, k, v;
  for (size_t n = 0; n < in.sequences.size(); ++n) {
    const PackedSequence& s = in.sequences[n];
    Gradients part = gradients_by_ops(sequence(in, n), g.narrow(2, s.query, s.queries), wants_v, wants_q_or_k);
    if (wants_v) v.push_back(std::move(part.v));
    if (!wants_q_or_k) continue;
    q.push_back(std::move(part.q));
    k.push_back(std::move(part.k));
  }
  return {q.empty() ? Tensor() : cat(q, 2), k.empty() ? Tensor() : cat(k, 2), v.empty() ? Tensor() : cat(v, 2)};
}

struct AttentionBackward {
  Saved q, k, v;
  SavedOutput output;
  Tensor log_sum_exp;
  Saved mask, slopes;
  /// Without its tensors.
  AttentionOperands plan;

  AttentionOperands operands(Node& self) const {
    AttentionOperands in = plan;
    in.q = q.get(self), in.k = k.get(self), in.v = v.get(self);
    if (mask.defined()) in.mask = mask.get(self);
    if (slopes.defined()) in.slopes = slopes.get(self);
    return in;
  }

  void by_ops(Node& self, const AttentionOperands& in, const Tensor& g, Tensor* outgoing) const {
    const DType dtype = in.q.dtype();
    Gradients all = gradients_by_sequence(turned(in), in.heads_inside ? g.transpose(1, 2) : g, self.wants(2),
                                          self.wants(0) || self.wants(1));
    Tensor* const parts[] = {&all.q, &all.k, &all.v};
    for (int i = 0; i < 3; ++i) {
      if (!self.wants(i)) continue;
      const Tensor part = parts[i]->to(dtype);
      outgoing[i] = in.heads_inside ? part.transpose(1, 2) : part;
    }
  }

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& g = incoming[0];
    const AttentionOperands in = operands(self);
    const auto kernel = kernels(g.raw_view()).attention_gradient;
    if (recording() || kernel == nullptr) return by_ops(self, in, g, outgoing);
    const Tensor* const operand[] = {&in.q, &in.k, &in.v};
    for (int i = 0; i < 3; ++i) outgoing[i] = make_like(*operand[i]);
    const auto view = [&](const Tensor& t) { return heads_first(in, t); };
    kernel(view(outgoing[0]), view(outgoing[1]), view(outgoing[2]), view(g), view(output.get(self)),
           log_sum_exp.raw_view(), view(in.q), view(in.k), view(in.v), in.mask.defined() ? in.mask.raw_view() : View(),
           kernel_plan(in));
  }
};

}  // namespace

void pack_sequences(AttentionOperands& in, std::vector<PackedSequence> sequences) {
  if (sequences.empty()) return;
  std::vector<int64_t> numbers;
  in.plan.most_queries = in.plan.most_keys = 0;
  for (const PackedSequence& s : sequences) {
    for (const int64_t n : {s.query, s.queries, s.key, s.keys}) numbers.push_back(n);
    in.plan.most_queries = std::max(in.plan.most_queries, s.queries);
    in.plan.most_keys = std::max(in.plan.most_keys, s.keys);
  }
  in.table = tensor(numbers).reshape({-1, 4}).to(in.q.device());
  in.sequences = std::move(sequences);
}

View heads_first(const AttentionOperands& in, const Tensor& t) {
  View view = t.raw_view();
  if (!in.heads_inside) return view;
  std::swap(view.layout.sizes[1], view.layout.sizes[2]);
  std::swap(view.layout.strides[1], view.layout.strides[2]);
  view.layout.contiguous = view.layout.sizes[1] == 1 || view.layout.sizes[2] == 1 ? view.layout.contiguous : 0;
  return view;
}

AttentionPlan kernel_plan(const AttentionOperands& in) {
  AttentionPlan plan = in.plan;
  if (in.slopes.defined()) plan.slopes = in.slopes.raw_view();
  if (in.table.defined()) plan.sequences = in.table.raw_view();
  if (in.blocks.defined()) plan.blocks = in.blocks.raw_view();
  return plan;
}

AttentionOperands in_compute_type(const AttentionOperands& in) {
  AttentionOperands out = in;
  for (Tensor* t : {&out.q, &out.k, &out.v}) *t = to_compute_type(*t);
  return out;
}

AttentionOutput attention_by_ops(const AttentionOperands& given, double p) {
  const AttentionOperands in = turned(given);
  const auto finish = [&](const Tensor& out) { return given.heads_inside ? out.transpose(1, 2) : out; };
  const auto attend = [&](const AttentionOperands& one) -> AttentionOutput {
    const int64_t groups = one.k.size(1);
    Tensor w = dropout(weights_by_ops(one), p);
    return {by_head(matmul(by_group(w, groups), one.v), one.q), w};
  };
  if (in.sequences.empty()) {
    AttentionOutput out = attend(in);
    return {finish(out.output), out.weights};
  }
  std::vector<Tensor> outputs;
  for (size_t n = 0; n < in.sequences.size(); ++n) outputs.push_back(attend(sequence(in, n)).output);
  return {finish(cat(outputs, 2)), {}};
}

Tensor attention_by_kernel(const AttentionOperands& in) {
  const View q = heads_first(in, in.q);
  const int64_t* sizes = q.layout.sizes;
  const DType wide = compute_type(in.q.dtype());
  const int64_t rows = in.q.sizes()[1], columns = in.q.sizes()[2];
  const Tensor out = make(Dims{sizes[0], rows, columns, in.v.sizes()[3]}, wide, in.q.device());
  const Tensor log_sum_exp = make(Dims{sizes[0], sizes[1], sizes[2]}, wide, in.q.device());
  kernels(q).attention(heads_first(in, out), log_sum_exp.raw_view(), q, heads_first(in, in.k), heads_first(in, in.v),
                       in.mask.defined() ? in.mask.raw_view() : View(), kernel_plan(in));
  if (should_record(in.q, in.k, in.v)) {
    AttentionOperands plan = in;
    for (Tensor* t : {&plan.q, &plan.k, &plan.v, &plan.mask, &plan.slopes}) *t = Tensor();
    record(out,
           AttentionBackward{Saved(in.q), Saved(in.k), Saved(in.v), SavedOutput(out), log_sum_exp,
                             in.mask.defined() ? Saved(in.mask) : Saved(),
                             in.slopes.defined() ? Saved(in.slopes) : Saved(), std::move(plan)},
           in.q, in.k, in.v);
  }
  return out;
}

void check_attention_types(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  for (const Tensor* t : {&q, &k, &v}) check_floating(checked(*t));
  check_same_device({&q, &k, &v, &mask});
  if (k.dtype() != q.dtype() || v.dtype() != q.dtype()) {
    raise_dtype("q, k and v", "one dtype",
                fmt::format("{}, {} and {}", name(q.dtype()), name(k.dtype()), name(v.dtype())));
  }
  if (mask.defined() && mask.dtype() != DType::boolean &&
      (!is_floating(mask.dtype()) || is_storage_only(mask.dtype()))) {
    raise_dtype("mask", "bool or a floating-point dtype", mask.dtype());
  }
}

void raise_attention_shapes(const std::string& problem, const std::string& layout, const Tensor& q, const Tensor& k,
                            const Tensor& v) {
  raise<ShapeError>({.problem = problem,
                     .details = fmt::format("q {}, k {}, v {}", q.shape().text(), k.shape().text(), v.shape().text()),
                     .remedy = layout});
}

void check_probability(const char* what, double p) { expect_range(what, p, 0, 1); }

Tensor additive_mask(const Tensor& mask, DType dtype) {
  if (mask.dtype() != DType::boolean) return mask.to(dtype);
  const Tensor shut = full({}, minus_infinity, {dtype, mask.device()});
  return weft::where(mask, 0.0, shut);
}

double attention_scale(std::optional<double> scale, int64_t width) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(std::max<int64_t>(width, 1))));
}

HeadSizes check_heads(const Tensor& q, const Tensor& k, const Tensor& v, int rank, const char* layout) {
  const auto refuse = [&](const char* problem) { raise_attention_shapes(problem, layout, q, k, v); };
  if (q.dim() != rank || k.dim() != rank || v.dim() != rank) refuse("q, k and v are of another rank");
  if (rank == 4 && (q.size(0) != k.size(0) || q.size(0) != v.size(0))) refuse("q, k and v differ in batch size");
  if (q.size(-1) != k.size(-1)) refuse("queries and keys differ in width");
  if (k.size(-3) != v.size(-3)) refuse("keys and values differ in number");
  const int64_t heads = q.size(-2), groups = k.size(-2);
  if (groups != v.size(-2)) refuse("keys and values differ in their heads");
  if (groups == 0 ? heads != 0 : heads % groups != 0) refuse("the heads of k and v must divide those of q");
  return {q.size(-3), k.size(-3), heads};
}

namespace {

void check_window(const AttentionWindow& w) {
  if (w.left >= -1 && w.right >= -1) return;
  raise<ValueError>({.problem = fmt::format("a window of {} keys to the left and {} to the right", w.left, w.right),
                     .remedy = "sizes are 0 or more, and -1 for all"});
}

}  // namespace

Tensor checked_slopes(const Tensor& slopes, const Tensor& q, int64_t batch, int64_t heads) {
  if (!slopes.defined()) return slopes;
  check_floating(slopes);
  check_same_device({&slopes, &q});
  const bool fits = slopes.dim() == 1   ? slopes.size(0) == heads
                    : slopes.dim() == 2 ? slopes.size(0) == batch && slopes.size(1) == heads
                                        : false;
  expect_shape("alibi_slopes", slopes, fits, "[{}] or [{}, {}]", heads, batch, heads);
  return slopes.to(compute_type(q.dtype())).expand({batch, heads});
}

void set_band(AttentionPlan& plan, bool causal, const AttentionWindow& window) {
  check_window(window);
  plan.at_end = true;
  if (window.left >= 0) plan.before = std::min(window.left, AttentionPlan::unlimited);
  if (window.right >= 0) plan.after = std::min(window.right, AttentionPlan::unlimited);
  if (causal) plan.after = 0;
}

std::vector<AttentionBackendState> attention_backends(const Tensor& q, const AttentionDemands& demands) {
  AttentionBackendState fused{AttentionBackend::fused, {}};
  const auto refuse = [&](bool where, std::string reason) {
    if (where) fused.reasons.push_back(std::move(reason));
  };
  refuse(kernels(q.raw_view()).attention == nullptr, "there is no such kernel on " + q.device().name());
  refuse(demands.weights, "it never has all weights, which are wanted");
  refuse(demands.dropout, "it has no dropout");
  refuse(demands.mask_gradient, "it has no gradient for the mask, which requires one");
  refuse(demands.slope_gradient, "it has no gradient for alibi_slopes, which require one");
  return {std::move(fused), {AttentionBackend::math, {}}};
}

bool takes_kernel(AttentionBackend chosen, const AttentionOperands& in, const AttentionDemands& demands) {
  const std::vector<AttentionBackendState> states = attention_backends(in.q, demands);
  const std::vector<std::string>& reasons = states[0].reasons;
  if (chosen == AttentionBackend::fused && !reasons.empty()) {
    raise<ValueError>({.problem = fmt::format("the fused backend cannot compute this: {}", fmt::join(reasons, "; ")),
                       .remedy = "the backend 'auto' takes one that can"});
  }
  // Where there are no elements, ops give the shape.
  return chosen != AttentionBackend::math && reasons.empty() && in.q.numel() != 0 && in.k.numel() != 0 &&
         in.v.numel() != 0;
}

}  // namespace detail
}  // namespace weft
