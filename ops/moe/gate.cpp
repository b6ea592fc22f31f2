#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "../create.hpp"
#include "../detail/bags.hpp"
#include "../detail/common.hpp"
#include "../detail/reducing.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../masked.hpp"
#include "../matmul.hpp"
#include "../moe.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../scatter.hpp"
#include "../search.hpp"
#include "../sort.hpp"
#include "checks-inl.hpp"
#include "token_rows-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

constexpr int64_t most_rows = std::numeric_limits<int32_t>::max();

void check_gate(const Tensor& x, const Tensor& scores, const Tensor& bias, int64_t k, int64_t capacity, bool pad) {
  check_floating(checked(x));
  check_floating(checked(scores));
  check_same_device({&x, &scores, &bias});
  expect_shape("x", x, x.dim() == 2, "[S, H]");
  expect_shape("scores", scores, scores.dim() == 2 && scores.size(0) == x.size(0), "[{}, E]", x.size(0));
  const int64_t experts = scores.size(1);
  if (bias.defined()) {
    check_floating(bias);
    expect_shape("bias", bias, Dims(experts));
  }
  expect_range("k", k, 0, experts);
  expect_at_least("capacity", capacity, 0);
  const bool fits =
      pad ? experts == 0 || capacity <= most_rows / experts : x.size(0) <= most_rows / std::max(k, int64_t{1});
  if (!fits) raise<ValueError>({.problem = fmt::format("more than {} rows, which int32 cannot count", most_rows)});
}

/// [S, k], i64, not recorded.
Tensor chosen(const Tensor& scores, const Tensor& bias, int64_t k) {
  const NoGradGuard unrecorded;
  return topk(bias.defined() ? scores + bias.to(scores.dtype()) : scores, k, 1).indices;
}

struct Slots {
  Sizes counts;  ///< how many chose each expert
  Sizes rows;    ///< [S, k]: each choice's row in y, or -1
  int64_t total = 0;
};

/// Slots in order of choice, then of token.
Slots fill_slots(const Sizes& experts, int64_t tokens, int64_t k, int64_t count, int64_t capacity, bool pad) {
  Slots out{Sizes(static_cast<size_t>(count), 0), Sizes(experts.size(), -1)};
  for (int64_t j = 0; j < k; ++j) {
    for (int64_t s = 0; s < tokens; ++s) {
      const auto at = static_cast<size_t>(s * k + j);
      const int64_t slot = out.counts[static_cast<size_t>(experts[at])]++;
      if (slot < capacity) out.rows[at] = slot;
    }
  }
  Sizes begins;
  for (const int64_t n : out.counts) {
    begins.push_back(out.total);
    out.total += pad ? capacity : std::min(n, capacity);
  }
  for (size_t at = 0; at < experts.size(); ++at) {
    if (out.rows[at] >= 0) out.rows[at] += begins[static_cast<size_t>(experts[at])];
  }
  return out;
}

[[noreturn]] void raise_follows() {
  raise<NotImplementedError>(
      {.problem = "the result's shape follows from values, which meta tensors lack", .remedy = "pad to the capacity"});
}

}  // namespace

MoeGateDispatchOut moe_gate_dispatch(const Tensor& x, const Tensor& scores, const std::optional<Tensor>& given_bias,
                                     int64_t k, int64_t capacity, bool pad, Location where) {
  const CallScope call("moe_gate_dispatch", where);
  const Tensor bias = given_bias.value_or(Tensor());
  check_gate(x, scores, bias, k, capacity, pad);
  const int64_t tokens = x.size(0), experts = scores.size(1);
  const Device device = x.device();
  const Tensor wide = to_compute_type(scores), ids = chosen(wide, bias, k);
  MoeGateDispatchOut out;
  out.expert_id = ids.to(DType::i32);
  TokenRows map;
  Tensor rows;
  if (is_meta(x)) {
    if (!pad) raise_follows();
    map = token_rows_on_meta(tokens, k, experts * capacity);
    rows = make(Dims{tokens, k}, DType::i64, device);
    out.offset = make(Dims(experts), DType::i64, device);
  } else {
    Slots slots = fill_slots(integers_of(ids), tokens, k, experts, capacity, pad);
    map = token_rows(slots.rows, tokens, slots.total, device);
    rows = tensor(slots.rows).reshape({tokens, k}).to(device);
    std::partial_sum(slots.counts.begin(), slots.counts.end(), slots.counts.begin());
    out.offset = tensor(slots.counts).to(device);
  }
  out.scatter = rows.t().to(DType::i32).contiguous();
  out.weights = masked_fill(gather(wide, 1, ids), rows < 0, 0);
  out.y = to_rows(x, map);
  return out;
}

// ---- back -----------------------------------------------------------------------------------------------------------

namespace {

void check_combine(const Tensor& y, const Tensor& weights, const Tensor& scatter) {
  check_floating(checked(y));
  check_floating(checked(weights));
  expect_integers("scatter", checked(scatter));
  check_same_device({&y, &weights, &scatter});
  expect_shape("y", y, y.dim() == 2, "[rows, H]");
  expect_shape("weights", weights, weights.dim() == 2, "[S, k]");
  const Dims turned{weights.size(1), weights.size(0)};
  expect_shape("scatter", scatter, turned);
  if (is_meta(y)) return;
  check_elements([scatter, rows = y.size(0)] {
    const Tensor out_of_range = logical_or(scatter < -1, scatter >= rows);
    if (WEFT_LIKELY(!any(out_of_range).item<bool>())) return;
    raise<IndexError>({.problem = fmt::format("scatter has a row beyond the {} of y", rows)});
  });
}

/// The terms of the tokens: rows of y times factors [S * k]; row index y.size(0) means none.
struct CombineBackward {
  Saved y, factors;
  Tensor at;
  int64_t tokens, k;

  /// Each row's places, in order, are a bag; those of none are a last one.
  Tensor of_rows(Node& self, const Tensor& g) const {
    const int64_t rows = y.get(self).size(0);
    const ValuesAndIndices sorted = sort(at);
    const Tensor begins = searchsorted(sorted.values, arange(0, rows + 1, 1, {DType::i64, g.device()}));
    const Tensor token = floor_divide(sorted.indices, k), factor = index_select(factors.get(self), 0, sorted.indices);
    return bag_sums(g, token, factor, {rows + 1, begins}, -1, false).narrow(0, 0, rows);
  }
  Tensor of_factors(Node& self, const Tensor& g) const {
    const Tensor dropped = at == y.get(self).size(0);
    const Tensor rows = index_select(y.get(self), 0, masked_fill(at, dropped, 0)).reshape({tokens, k, g.size(1)});
    return masked_fill(matmul(rows, g.unsqueeze(-1)).reshape({tokens * k}), dropped, 0);
  }
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(0)) outgoing[0] = of_rows(self, incoming[0]);
    if (self.wants(1)) outgoing[1] = of_factors(self, incoming[0]);
  }
};

}  // namespace

Tensor moe_combine(const Tensor& y, const Tensor& weights, const Tensor& scatter, Location where) {
  const CallScope call("moe_combine", where);
  check_combine(y, weights, scatter);
  const int64_t tokens = weights.size(0), k = weights.size(1);
  Tensor wide = to_compute_type(y);
  // Without rows there is nothing that an index could leave out.
  if (y.size(0) == 0) wide = cat({wide, zeros({1, y.size(1)}, {wide.dtype(), y.device()})});
  const int64_t none = wide.size(0);
  const Tensor rows = scatter.t().to(DType::i64).contiguous(), dropped = rows < 0;
  const Tensor at = masked_fill(rows, dropped, none).reshape({-1});
  const Tensor factors = masked_fill(weights.to(wide.dtype()), dropped, 0).reshape({-1});
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const Tensor begins = arange(0, tokens, 1, {DType::i64, y.device()}) * k;
    out = bag_sums(wide, at, factors, {tokens, begins, k}, none, false);
  }
  if (should_record(wide, factors)) {
    record(out, CombineBackward{Saved(wide), Saved(factors), at, tokens, k}, wide, factors);
  }
  return out.to(y.dtype());
}

}  // namespace weft
