#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/reducing.hpp"
#include "../fused/activate-inl.hpp"
#include "../fused/mlp-inl.hpp"
#include "../fused/recompute-inl.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../masked.hpp"
#include "../matmul.hpp"
#include "../moe.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../scatter.hpp"
#include "../softmax.hpp"
#include "../sort.hpp"
#include "../../tensor/warning.hpp"
#include "checks-inl.hpp"
#include "token_rows-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

Activation expert_activation(Activation given) {
  switch (given) {
    case Activation::gelu:
      return Activation::gelu_tanh;
    case Activation::silu:
    case Activation::gelu_tanh:
    case Activation::relu:
    case Activation::selu:
      return given;
    default:
      raise<ValueError>({.problem = "experts have no such activation", .remedy = "use silu, gelu, relu or selu"});
  }
}

/// The experts here, [first, first + count), of all; `total` is -1 where nobody said.
struct Range {
  int64_t first, count, total;
};

Range range_of(const MoeOptions& o, std::span<const Tensor> down) {
  const int64_t count = std::ssize(down);
  if (count == 0) raise<ShapeError>({.problem = "no expert has weights"});
  constexpr int64_t limit = std::numeric_limits<int64_t>::max();
  const bool begins = o.experts_min >= 0 && o.experts_min <= limit - count;
  const int64_t last = begins ? o.experts_max.value_or(o.experts_min + count - 1) : -1;
  if (!begins || last < o.experts_min || last - o.experts_min != count - 1) {
    raise<ValueError>({.problem = fmt::format("experts {} to {} are not the {} that have weights", o.experts_min,
                                              o.experts_max.value_or(last), count)});
  }
  const int64_t total = o.total_experts.value_or(o.experts_max ? -1 : last + 1);
  if (o.total_experts && total <= last) {
    raise<ValueError>({.problem = fmt::format("expert {} of {} in all", last, total)});
  }
  return {o.experts_min, count, total};
}

/// The gate or both, and the up if it is separate.
struct ExpertWeights {
  std::span<const Tensor> gate_up, down;
  bool transposed;
  bool apart() const { return gate_up.size() == 2 * down.size(); }
  const Tensor& proj(size_t e) const { return gate_up[e]; }
  Tensor up(size_t e) const { return apart() ? gate_up[down.size() + e] : Tensor(); }
};

void check_experts(const Tensor& h, const Tensor& routing, const Tensor& weights, const ExpertWeights& w) {
  check_floating(checked(h));
  check_floating(checked(weights));
  expect_integers("routing", checked(routing));
  check_same_device({&h, &routing, &weights});
  expect_shape("h", h, h.dim() == 2, "[T, H]");
  expect_shape("routing", routing, routing.dim() == 2 && routing.size(0) == h.size(0), "[{}, K]", h.size(0));
  expect_shape("weights", weights, routing.shape());
  if (w.gate_up.size() != w.down.size() && !w.apart()) {
    raise<ShapeError>(
        {.problem = fmt::format("{} weights for the gates and ups of {} experts", w.gate_up.size(), w.down.size()),
         .remedy = "give one [H, 2 F] for each, or all gates and then all ups"});
  }
  const int out = w.transposed ? 0 : 1;
  for (size_t e = 0; e < w.down.size(); ++e) {
    check_mlp(h, w.proj(e), w.up(e), w.down[e], w.transposed);
    if (w.down[e].size(out) == w.down[0].size(out)) continue;
    raise<ShapeError>({.problem = fmt::format("expert {} gives {} features, the first one {}", e, w.down[e].size(out),
                                              w.down[0].size(out))});
  }
}

/// Rows by expert, within it by token and choice; each token's choices in ascending order of expert.
struct Assignment {
  Sizes counts;  ///< rows of each expert here
  Sizes order;   ///< [T, K]: which choice comes next
  Sizes rows;    ///< [T, K]: its row, or -1
};

Assignment assign(const Sizes& ids, int64_t tokens, int64_t k, const Range& range) {
  const int64_t n = std::ssize(ids);
  Assignment out{table<int64_t>(range.count, 0), table<int64_t>(n, 0), table<int64_t>(n, -1)};
  const auto here = [&](int64_t id) { return id >= range.first && id < range.first + range.count; };
  for (const int64_t id : ids) {
    if (id < -1 || (range.total >= 0 && id >= range.total)) {
      raise<IndexError>({.problem = range.total >= 0 ? fmt::format("expert {} of {}", id, range.total)
                                                     : fmt::format("expert {}", id)});
    }
    if (here(id)) ++out.counts[static_cast<size_t>(id - range.first)];
  }
  Sizes next(out.counts.size());
  std::exclusive_scan(out.counts.begin(), out.counts.end(), next.begin(), int64_t{0});
  for (int64_t t = 0; t < tokens; ++t) {
    const auto first = out.order.begin() + t * k;
    std::iota(first, first + k, int64_t{0});
    const auto id_of = [&](int64_t j) { return ids[static_cast<size_t>(t * k + j)]; };
    std::stable_sort(first, first + k, [&](int64_t a, int64_t b) { return id_of(a) < id_of(b); });
    for (int64_t j = 0; j < k; ++j) {
      const int64_t id = id_of(first[j]);
      if (here(id)) out.rows[static_cast<size_t>(t * k + j)] = next[static_cast<size_t>(id - range.first)]++;
    }
  }
  return out;
}

/// One expert of x [n, H] in the compute type; the largest |between| goes to `amax` where that has elements.
Tensor expert(const Tensor& x, const ExpertWeights& w, size_t e, Activation activation, const Tensor& amax) {
  const DType wide = compute_type(x.dtype());
  const Tensor proj = w.proj(e), up = w.up(e), down = w.down[e];
  const auto compose = [transposed = w.transposed, activation, wide](std::span<const Tensor> in) {
    const MlpWeights m = mlp_weights(in[1], in[2], in[3], transposed);
    return mlp_by_ops(in[0].to(wide), {m.gate.to(wide), m.up.to(wide), m.down.to(wide)}, activation);
  };
  const Tensor inputs[] = {x, proj, up, down};
  Tensor out;
  bool by_kernel = false;
  {
    const NoGradGuard unrecorded;
    const MlpWeights m = mlp_weights(proj, up, down, w.transposed);
    out = make(Dims{x.size(0), m.down.size(1)}, wide, x.device());
    Tensor between = make(Dims{x.size(0), m.down.size(0)}, wide, x.device());
    by_kernel = mlp_by_kernel(out, between, x, m, activation);
    if (amax.defined() && amax.numel() > 0 && between.numel() > 0) {
      if (!by_kernel) between = activated(matmul(x, m.gate), activation) * matmul(x, m.up);
      amax.select(0, static_cast<int64_t>(e)).copy_(max(abs(between)).to(wide));
    }
  }
  if (!by_kernel) return compose(inputs);
  if (should_record(x, proj, up, down)) record(out, Recomputed::of(inputs, compose), x, proj, up, down);
  return out;
}

/// On the device `meta`, where the routing is unknown: every token through every expert.
Tensor without_values(const Tensor& h, const Tensor& weights, const ExpertWeights& w, Activation activation) {
  Tensor out;
  for (size_t e = 0; e < w.down.size(); ++e) {
    const Tensor one = expert(h, w, e, activation, Tensor());
    out = out.defined() ? out + one : one;
  }
  return (out * sum(weights, {1}, true)).to(h.dtype());
}

}  // namespace

std::tuple<Tensor, Tensor> mixture_of_experts(const Tensor& h, const Tensor& routing, const Tensor& weights,
                                              std::span<const Tensor> gate_up, std::span<const Tensor> down,
                                              const MoeOptions& options, Location where) {
  const CallScope call("mixture_of_experts", where);
  if (options.quantisation != ExpertQuantisation::none) {
    raise<NotImplementedError>({.problem = "experts with quantised weights", .remedy = "dequantise them first"});
  }
  const Activation activation = expert_activation(options.activation);
  const Range range = range_of(options, down);
  const ExpertWeights w{gate_up, down, options.transposed_weights};
  check_experts(h, routing, weights, w);
  const int64_t tokens = h.size(0), k = routing.size(1);
  const DType wide = compute_type(h.dtype());
  const Tensor amax = zeros({options.measure_amax ? range.count : 0}, {wide, h.device()});
  if (is_meta(h)) return {without_values(h, weights, w, activation), amax};
  const Assignment to = assign(integers_of(routing), tokens, k, range);
  const int64_t rows = std::accumulate(to.counts.begin(), to.counts.end(), int64_t{0});
  const Tensor x = to_rows(h, token_rows(to.rows, tokens, rows, h.device()));
  std::vector<Tensor> outs;
  int64_t begin = 0;
  for (size_t e = 0; e < to.counts.size(); ++e) {
    const int64_t n = to.counts[e];
    // Experts without tokens stay in the graph: their gradient is 0, and hooks that wait for it run.
    if (n > 0 || recording()) outs.push_back(expert(x.narrow(0, begin, n), w, e, activation, amax));
    begin += n;
  }
  if (outs.empty()) outs.push_back(expert(x, w, 0, activation, amax));
  const Tensor order = tensor(to.order).reshape({tokens, k}).to(h.device());
  const Tensor scatter = tensor(to.rows).reshape({tokens, k}).to(h.device()).t();
  return {moe_combine(outs.size() == 1 ? outs[0] : cat(outs), gather(weights, 1, order), scatter).to(h.dtype()), amax};
}

std::tuple<Tensor, Tensor> moe_topk_gate(const Tensor& gate_out, const std::optional<Tensor>& bias, int64_t top_k,
                                         bool norm_topk, Location where) {
  const CallScope call("moe_topk_gate", where);
  check_floating(checked(gate_out));
  expect_shape("gate_out", gate_out, gate_out.dim() == 2, "[T, E]");
  const int64_t experts = gate_out.size(1);
  if (bias && bias->defined()) {
    check_floating(*bias);
    check_same_device({&gate_out, &*bias});
    expect_shape("bias", *bias, {experts});
  }
  expect_range("top_k", top_k, 0, experts);
  const Tensor p = softmax(to_compute_type(gate_out), -1);
  Tensor ids;
  {
    const NoGradGuard unrecorded;
    ids = topk(bias && bias->defined() ? p + bias->to(p.dtype()) : p, top_k, 1).indices;
  }
  Tensor weights = gather(p, 1, ids);
  if (norm_topk && top_k == 1 && experts > 1 && should_record(gate_out)) {
    warn({.problem = "one normalized weight is always 1: no gradient of the output reaches gate_out",
          .details = "top_k is 1 and norm_topk is true",
          .remedy = "norm_topk = false, or a top_k above 1"});
  }
  if (norm_topk) {
    const Tensor total = sum(weights, {1}, true);
    weights = weights / masked_fill(total, total == 0, 1);
  }
  return {weights, ids.to(DType::i32)};
}

std::tuple<Tensor, Tensor> fused_gate_moe(const Tensor& h, const Tensor& gate_out, const std::optional<Tensor>& bias,
                                          std::span<const Tensor> gate_up, std::span<const Tensor> down, int64_t top_k,
                                          bool norm_topk, const MoeOptions& options, Location where) {
  const CallScope call("fused_gate_moe", where);
  const auto [weights, ids] = moe_topk_gate(gate_out, bias, top_k, norm_topk);
  MoeOptions all = options;
  if (!all.total_experts) all.total_experts = gate_out.size(1);
  return mixture_of_experts(h, ids, weights, gate_up, down, all);
}

}  // namespace weft
