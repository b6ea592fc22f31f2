#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../moe.hpp"
#include "../pointwise.hpp"
#include "checks-inl.hpp"
#include "token_rows-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

constexpr int64_t scale_block = 128;

bool is_8_bit(const Tensor& x) { return is_floating(x.dtype()) && itemsize(x.dtype()) == 1; }

void check_scale(const Tensor& x, const Tensor& scale) {
  if (!scale.defined()) {
    if (!is_8_bit(x)) return;
    raise<ValueError>({.problem = fmt::format("x is {} and has no scale", name(x.dtype())),
                       .remedy = "give the scale of each block of 128 elements"});
  }
  expect_dtype("scale", scale, scale.dtype() == DType::f32 || scale.dtype() == DType::i32, "float32 or int32");
  const int64_t block = scale.dtype() == DType::i32 ? 4 * scale_block : scale_block;
  const Dims expected{x.size(0), x.size(1) / block + (x.size(1) % block != 0 ? 1 : 0)};
  if (scale.shape() == expected) return;
  raise<ShapeError>({.problem = mismatch_text("scale", "shape " + expected.text(), scale.shape()),
                     .details = fmt::format("x {}, scale in {}", x.shape().text(), name(scale.dtype()))});
}

void check_permute(const Tensor& x, const Tensor& scale, const Tensor& routing, const Tensor& probs,
                   int64_t num_experts, std::span<const int64_t> counts, int64_t align) {
  if (!is_floating(checked(x).dtype())) check_floating(x);
  check_floating(checked(probs));
  expect_integers("routing", checked(routing));
  check_same_device({&x, &scale, &routing, &probs});
  expect_shape("x", x, x.dim() == 2, "[S, H]");
  expect_shape("routing", routing, routing.dim() == 2 && routing.size(0) == x.size(0), "[S, K]");
  expect_shape("probs", probs, probs.shape() == routing.shape(), "[S, K]");
  check_scale(x, scale);
  if (num_experts < 0) raise<ValueError>({.problem = fmt::format("{} experts", num_experts)});
  if (std::ssize(counts) != num_experts) {
    raise<ShapeError>({.problem = fmt::format("{} numbers of tokens for {} experts", counts.size(), num_experts)});
  }
  if (align < 1) raise<ValueError>({.problem = fmt::format("blocks of a multiple of {} rows", align)});
}

/// Where each expert's block begins, and behind the last one where it ends.
Sizes block_begins(std::span<const int64_t> counts, int64_t align) {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  Sizes begins{0};
  for (const int64_t count : counts) {
    if (count < 0) raise<ValueError>({.problem = fmt::format("an expert with {} tokens", count)});
    const int64_t blocks = count / align + (count % align != 0 ? 1 : 0);
    if (blocks > (limit - begins.back()) / align) {
      raise<ValueError>({.problem = fmt::format("more than {} rows, which int32 cannot count", limit)});
    }
    begins.push_back(begins.back() + blocks * align);
  }
  return begins;
}

void check_counts(const Sizes& next, const Sizes& begins, std::span<const int64_t> counts) {
  for (size_t e = 0; e < counts.size(); ++e) {
    const int64_t named = next[e] - begins[e];
    if (named == counts[e]) continue;
    raise_value("tokens_per_expert", fmt::format("{} for expert {}", named, e), counts[e],
                "it counts the experts in routing, without -1");
  }
}

/// The row of each place of routing, or -1, which is written into rowmap [tokens, experts], too.
Sizes rows_of_places(const Sizes& routing, int64_t tokens, const Sizes& begins, std::span<const int64_t> counts,
                     std::span<int32_t> rowmap) {
  const int64_t k = tokens == 0 ? 0 : std::ssize(routing) / tokens, experts = std::ssize(counts);
  Sizes next(begins.begin(), begins.end() - 1), rows = table<int64_t>(std::ssize(routing), -1);
  for (int64_t i = 0; i < std::ssize(routing); ++i) {
    const int64_t e = routing[static_cast<size_t>(i)], token = i / k;
    check_expert(e, experts);
    if (e < 0) continue;
    int32_t& row = rowmap[static_cast<size_t>(token * experts + e)];
    if (row >= 0) raise<ValueError>({.problem = fmt::format("token {} names expert {} twice", token, e)});
    rows[static_cast<size_t>(i)] = next[static_cast<size_t>(e)]++;
    row = static_cast<int32_t>(rows[static_cast<size_t>(i)]);
  }
  check_counts(next, begins, counts);
  return rows;
}

/// Each token's rows in ascending order, those that are -1 last.
Sizes ascending(Sizes rows, int64_t tokens) {
  if (tokens == 0) return rows;
  const int64_t n = std::ssize(rows) / tokens;
  const auto is_before = [](int64_t a, int64_t b) { return static_cast<uint64_t>(a) < static_cast<uint64_t>(b); };
  for (auto at = rows.begin(); at != rows.end() && n > 0; at += n) std::sort(at, at + n, is_before);
  return rows;
}

struct PermutePlan {
  TokenRows tokens;  ///< rows of x
  TokenRows places;  ///< rows of places in routing
  Tensor rowmap;
};

PermutePlan permute_plan(const Tensor& routing, std::span<const int64_t> counts, int64_t align) {
  const int64_t tokens = routing.size(0), k = routing.size(1), experts = std::ssize(counts);
  const Sizes begins = block_begins(counts, align);
  if (is_meta(routing)) {
    return {token_rows_on_meta(tokens, k, begins.back()), token_rows_on_meta(tokens * k, 1, begins.back()),
            make(Dims{tokens, experts}, DType::i32, routing.device())};
  }
  const Tensor rowmap = full({tokens, experts}, -1, {DType::i32});
  auto* const first = static_cast<int32_t*>(rowmap.raw_view().data);
  const Sizes rows =
      rows_of_places(integers_of(routing), tokens, begins, counts, {first, static_cast<size_t>(rowmap.numel())});
  return {token_rows(ascending(rows, tokens), tokens, begins.back(), routing.device()),
          token_rows(rows, tokens * k, begins.back(), routing.device()), rowmap.to(routing.device())};
}

Tensor probs_to_rows(const Tensor& probs, const TokenRows& places) {
  return to_rows(probs.to(compute_type(probs.dtype())).reshape({places.tokens, 1}), places).reshape({places.rows});
}

}  // namespace

MoePermuteOut moe_permute(const Tensor& x, const std::optional<Tensor>& given_scale, const Tensor& routing,
                          const Tensor& probs, int64_t num_experts, std::span<const int64_t> tokens_per_expert,
                          int64_t align, bool gather, Location where) {
  const CallScope call("moe_permute", where);
  const Tensor scale = given_scale.value_or(Tensor());
  check_permute(x, scale, routing, probs, num_experts, tokens_per_expert, align);
  const PermutePlan plan = permute_plan(routing, tokens_per_expert, align);
  MoePermuteOut out;
  out.tokens = gather ? to_rows(x, plan.tokens) : make(Dims{0, x.size(1)}, x.dtype(), x.device());
  out.rowmap = plan.rowmap;
  out.probs = probs_to_rows(probs, plan.places);
  out.scale = scale.defined() ? to_rows(scale, plan.tokens) : make(Dims{plan.tokens.rows, 0}, DType::f32, x.device());
  return out;
}

// ---- back -----------------------------------------------------------------------------------------------------------

namespace {

void check_unpermute(const Tensor& tokens, const Tensor& rowmap, const Tensor& routing, const Tensor& probs, int64_t S,
                     int64_t E) {
  check_floating(checked(tokens));
  check_floating(checked(probs));
  expect_integers("rowmap", checked(rowmap));
  expect_integers("routing", checked(routing));
  check_same_device({&tokens, &rowmap, &routing, &probs});
  expect_shape("tokens", tokens, tokens.dim() == 2, "[R, H]");
  expect_shape("rowmap", rowmap, Dims{S, E});
  expect_shape("routing", routing, routing.dim() == 2 && routing.size(0) == S, "[{}, K]", S);
  expect_shape("probs", probs, probs.dim() == 1 && probs.numel() == tokens.size(0), "[{}]", tokens.size(0));
}

void check_rows(const Sizes& rowmap, int64_t rows) {
  std::vector<bool> is_filled = table<bool>(rows, false);
  for (const int64_t row : rowmap) {
    if (row < -1 || row >= rows) raise<IndexError>({.problem = fmt::format("row {} of {}", row, rows)});
    if (row < 0) continue;
    if (is_filled[static_cast<size_t>(row)]) {
      raise<ValueError>({.problem = fmt::format("two tokens have row {}", row)});
    }
    is_filled[static_cast<size_t>(row)] = true;
  }
}

/// The rows that each token has in ascending order of expert, as many places as the most have.
Sizes compact(const Sizes& rowmap, int64_t tokens, int64_t experts) {
  Sizes found = table<int64_t>(tokens, 0);
  for (int64_t i = 0; i < std::ssize(rowmap); ++i) {
    found[static_cast<size_t>(i / experts)] += rowmap[static_cast<size_t>(i)] >= 0 ? 1 : 0;
  }
  const int64_t n = found.empty() ? 0 : *std::ranges::max_element(found);
  Sizes rows = table<int64_t>(tokens * n, -1);
  for (int64_t s = 0; s < tokens; ++s) {
    size_t at = static_cast<size_t>(s * n);
    for (int64_t e = 0; e < experts; ++e) {
      const int64_t row = rowmap[static_cast<size_t>(s * experts + e)];
      if (row >= 0) rows[at++] = row;
    }
  }
  return rows;
}

/// The row of each place of routing, or -1.
Sizes rows_named(const Sizes& routing, const Sizes& rowmap, int64_t tokens, int64_t experts) {
  const int64_t k = tokens == 0 ? 0 : std::ssize(routing) / tokens;
  Sizes rows = table<int64_t>(std::ssize(routing), -1);
  for (int64_t i = 0; i < std::ssize(routing); ++i) {
    const int64_t e = routing[static_cast<size_t>(i)];
    check_expert(e, experts);
    if (e < 0) continue;
    rows[static_cast<size_t>(i)] = rowmap[static_cast<size_t>(i / k * experts + e)];
    for (int64_t j = i - i % k; j < i; ++j) {
      if (routing[static_cast<size_t>(j)] != e) continue;
      raise<ValueError>({.problem = fmt::format("token {} names expert {} twice", i / k, e)});
    }
  }
  return rows;
}

struct UnpermutePlan {
  TokenRows tokens, places;
};

UnpermutePlan unpermute_plan(const Tensor& rowmap, const Tensor& routing, int64_t rows) {
  const int64_t tokens = rowmap.size(0), experts = rowmap.size(1), k = routing.size(1);
  if (is_meta(rowmap)) return {token_rows_on_meta(tokens, 1, rows), token_rows_on_meta(tokens * k, 1, rows)};
  const Sizes map = integers_of(rowmap);
  check_rows(map, rows);
  const Sizes named = rows_named(integers_of(routing), map, tokens, experts);
  return {token_rows(compact(map, tokens, experts), tokens, rows, rowmap.device()),
          token_rows(named, tokens * k, rows, rowmap.device())};
}

}  // namespace

std::tuple<Tensor, Tensor> moe_unpermute(const Tensor& tokens, const Tensor& rowmap, const Tensor& routing,
                                         const Tensor& probs, int64_t S, int64_t E, bool f32_accumulate,
                                         Location where) {
  const CallScope call("moe_unpermute", where);
  check_unpermute(tokens, rowmap, routing, probs, S, E);
  const UnpermutePlan plan = unpermute_plan(rowmap, routing, tokens.size(0));
  const Tensor y = to_tokens(tokens, plan.tokens, !f32_accumulate);
  return {y, to_tokens(probs.reshape({plan.places.rows, 1}), plan.places).reshape(routing.shape())};
}

}  // namespace weft
