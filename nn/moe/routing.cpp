#include "routing-inl.hpp"

#include <cmath>

#include <fmt/format.h>

#include "../../autograd/autocast.hpp"
#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/detail/reducing.hpp"
#include "../../ops/index.hpp"
#include "../../ops/join.hpp"
#include "../../ops/matmul.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "../../ops/scatter.hpp"
#include "../../ops/softmax.hpp"
#include "../../tensor/warning.hpp"
#include "../layer-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::nn::detail {

namespace {

constexpr std::string_view score_names[] = {"softmax", "sigmoid"};
// Avoids division by 0: the sigmoids of a token may all be 0.
constexpr double tiny = 1e-20;
constexpr std::string_view kind_names[] = {"swiglu", "gelu"};

int64_t capacity_of(int64_t tokens, int64_t experts, const MoEOptions& o) {
  if (!o.capacity_factor) return tokens;
  const double share = *o.capacity_factor * static_cast<double>(tokens) * static_cast<double>(o.top_k);
  return static_cast<int64_t>(std::min(std::ceil(share / static_cast<double>(experts)), static_cast<double>(tokens)));
}

Tensor activated(const Tensor& h, ExpertKind kind) {
  if (kind == ExpertKind::gelu) return gelu(h);
  const int64_t hidden = h.size(-1) / 2;
  return swiglu(h.narrow(-1, 0, hidden), h.narrow(-1, hidden, hidden));
}

/// Result of moe_gate_dispatch on meta, where counts are unknown: all selected rows belong to the first expert.
MoeGateDispatchOut without_values(const Tensor& x, int64_t experts, int64_t k) {
  const int64_t tokens = x.size(0);
  const auto integers = [&](const Dims& shape, DType dtype) { return empty(shape, {dtype, x.device()}); };
  return {.y = x.unsqueeze(1).expand({tokens, k, x.size(1)}).reshape({tokens * k, x.size(1)}),
          .weights = {},
          .scatter = integers({k, tokens}, i32),
          .offset = full({experts}, tokens * k, {i64}),
          .expert_id = integers({tokens, k}, i32)};
}

}  // namespace

void check_options(const char* layer, int64_t width, int64_t hidden, int64_t experts, const MoEOptions& o,
                   Location where) {
  check_size(layer, "width", width, where);
  check_size(layer, "hidden", hidden, where);
  check_size(layer, "shared_experts", o.shared_experts, where);
  const auto refuse = [&](std::string problem) {
    raise<ValueError>({.op = layer, .problem = std::move(problem)}, where);
  };
  if (o.top_k < 1 || o.top_k > experts) refuse(fmt::format("a token goes through {} of {} experts", o.top_k, experts));
  if (o.capacity_factor && !(*o.capacity_factor > 0 && std::isfinite(*o.capacity_factor))) {
    refuse(fmt::format("capacity_factor is {}", *o.capacity_factor));
  }
  for (const double weight : {o.balance_weight, o.z_weight}) {
    if (!(weight >= 0 && std::isfinite(weight))) refuse(fmt::format("a loss has the weight {}", weight));
  }
  if (!o.normalize || o.top_k != 1 || experts == 1) return;
  warn({.op = layer,
        .problem = "one normalized weight is always 1: no gradient of the output reaches the router",
        .details = "top_k is 1 and normalize is true",
        .remedy = "normalize = false, or a top_k above 1"},
       where);
}

Config config_of(int64_t width, int64_t hidden, int64_t experts, const MoEOptions& o) {
  return {{"width", width},
          {"hidden", hidden},
          {"experts", experts},
          {"top_k", o.top_k},
          {"scores", score_names[static_cast<size_t>(o.scores)]},
          {"normalize", o.normalize},
          {"kind", kind_names[static_cast<size_t>(o.kind)]},
          {"shared_experts", o.shared_experts},
          {"capacity_factor", o.capacity_factor},
          {"expert_bias", o.expert_bias},
          {"balance_weight", o.balance_weight},
          {"z_weight", o.z_weight}};
}

MoEOptions options_of(const Config& c) {
  return {.top_k = c.get_or<int64_t>("top_k", 2),
          .scores = enumerator(c, "scores", score_names, RouterScores::softmax),
          .normalize = c.get_or("normalize", true),
          .kind = enumerator(c, "kind", kind_names, ExpertKind::swiglu),
          .shared_experts = c.get_or<int64_t>("shared_experts", 0),
          .capacity_factor = c.get_or<std::optional<double>>("capacity_factor", {}),
          .expert_bias = c.get_or("expert_bias", false),
          .balance_weight = c.get_or("balance_weight", 0.0),
          .z_weight = c.get_or("z_weight", 0.0)};
}

Routed route(const Tensor& x, const Tensor& router, const Tensor& expert_bias, const MoEOptions& o, bool moves) {
  const weft::detail::AutocastModeGuard exact({});
  const int64_t tokens = x.size(0), experts = router.size(0);
  Routed out;
  out.logits = linear(to_compute_type(x), to_compute_type(router));
  out.scores = o.scores == RouterScores::softmax ? softmax(out.logits, -1) : sigmoid(out.logits);
  const std::optional<Tensor> bias = expert_bias.defined() ? std::optional(expert_bias) : std::nullopt;
  const int64_t capacity = capacity_of(tokens, experts, o);
  const Tensor moved = moves ? x : x.narrow(1, 0, 0);
  out.to = is_meta(x) ? without_values(moved, experts, o.top_k)
                      : moe_gate_dispatch(moved, out.scores, bias, o.top_k, capacity, false);
  // moe_gate_dispatch's weights exclude dropped tokens, which count in the sum.
  out.weights = gather(out.scores, 1, out.to.expert_id.to(i64));
  if (o.normalize) out.weights = out.weights / (sum(out.weights, {-1}, true) + tiny);
  int64_t before = 0;
  for (const int64_t end : out.to.offset.to_vector<int64_t>()) {
    out.chosen.push_back(end - before);
    out.kept.push_back(is_meta(x) ? end - before : std::min(end - before, capacity));
    before = end;
  }
  return out;
}

RouterSums router_sums(const Routed& routed, const MoEOptions& o) {
  const Tensor &scores = routed.scores, z = logsumexp(routed.logits, {-1});
  const Tensor shares = o.scores == RouterScores::softmax ? scores : scores / (sum(scores, {-1}, true) + tiny);
  return {tensor(routed.chosen).to(scores.device()), cat({sum(shares, {0}), sum(z * z).reshape({1})})};
}

MoEOutput losses_of(const RouterSums& sums, const MoEOptions& o) {
  const int64_t experts = sums.counts.size(0);
  const Tensor counts = sums.counts.to(sums.shares.dtype());
  const Tensor tokens = maximum(sum(counts) / o.top_k, 1);
  const double scale = static_cast<double>(experts) / static_cast<double>(o.top_k);
  return {.output = {},
          .balance_loss = sum(counts / tokens * (sums.shares.narrow(0, 0, experts) / tokens)) * scale,
          .z_loss = sums.shares.select(0, experts) / tokens,
          .counts = sums.counts};
}

Tensor through_experts(const Tensor& rows, const Tensor& up, const Tensor& down, const std::vector<int64_t>& counts,
                       ExpertKind kind) {
  return grouped_linear(activated(grouped_linear(rows, up, counts), kind), down, counts);
}

Tensor through_shared(const Tensor& x, const Tensor& up, const Tensor& down, ExpertKind kind) {
  return linear(activated(linear(x, up), kind), down);
}

Tensor as_tokens(const Tensor& x, int64_t width) {
  if (checked(x).dim() >= 1 && x.size(-1) == width) return x.reshape({width == 0 ? 0 : x.numel() / width, width});
  raise_shape("x", fmt::format("[..., {}]", width), x);
}

void update_bias(const Buffer& expert_bias, const Tensor& counts, double rate) {
  if (!expert_bias.defined()) {
    raise<ValueError>({.problem = "there is no bias to update", .remedy = "make the layer with expert_bias"});
  }
  expect_shape("counts", checked(counts), expert_bias.shape());
  const NoGradGuard unrecorded;
  const Tensor load = counts.to(expert_bias.dtype());
  expert_bias.add_(rate * sign(mean(load) - load));
}

}  // namespace weft::nn::detail
