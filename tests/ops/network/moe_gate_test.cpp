#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <weft/ops/moe.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/softmax.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

using Sizes = std::vector<int64_t>;

Tensor literal_scores() { return doubles({.731, .269, .047, .953, .982, .018, .731, .269}, {4, 2}); }
Tensor literal_x() { return doubles({1, 2, 3, 4}, {4, 1}); }

TEST(MoeGateDispatch, TakesFirstTokensUpToTheCapacity) {
  const auto [y, weights, scatter, offset, ids] = moe_gate_dispatch(literal_x(), literal_scores(), {}, 1, 2, true);
  expect_values(y, {1, 3, 2, 0}, 0);
  expect_values(scatter, {0, 2, 1, -1}, 0);
  expect_values(weights, {.731, .953, .982, 0}, 0);
  expect_values(offset, {3, 4}, 0);
  expect_values(ids, {0, 1, 0, 0}, 0);
  EXPECT_EQ(scatter.shape(), (Dims{1, 4}));
  EXPECT_EQ(scatter.dtype(), i32);
  EXPECT_EQ(ids.dtype(), i32);
  EXPECT_EQ(offset.dtype(), i64);
}

TEST(MoeGateDispatch, FillsFirstChoicesOfAllTokensBeforeSecondOnes) {
  for (const bool pad : {true, false}) {
    const auto [y, weights, scatter, offset, ids] = moe_gate_dispatch(literal_x(), literal_scores(), {}, 2, 3, pad);
    expect_values(y, {1, 3, 4, 2, 1, 3}, 0);
    expect_values(scatter, {0, 3, 1, 2, 4, -1, 5, -1}, 0);
    expect_values(offset, {4, 8}, 0);
  }
}

TEST(MoeGateDispatch, LeavesOutEmptySlotsWithoutPadding) {
  const auto [y, weights, scatter, offset, ids] = moe_gate_dispatch(literal_x(), literal_scores(), {}, 1, 2, false);
  expect_values(y, {1, 3, 2}, 0);
  expect_values(scatter, {0, 2, 1, -1}, 0);
}

TEST(MoeGateDispatch, ChoosesByBiasAndWeighsWithoutIt) {
  const Tensor scores = doubles({.6, .3, .1}, {1, 3});
  const auto [y, weights, scatter, offset, ids] =
      moe_gate_dispatch(ones({1, 1}, f64), scores, doubles({0, .5, 1}), 2, 1, true);
  expect_values(ids, {2, 1}, 0);
  expect_values(weights, {.1, .3}, 0);
}

TEST(MoeGateDispatch, OfEqualScoresTheFirstIsChosen) {
  const auto out = moe_gate_dispatch(ones({2, 1}, f64), full({2, 5}, .2, f64), {}, 3, 2, true);
  expect_values(out.expert_id, {0, 1, 2, 0, 1, 2}, 0);
}

TEST(MoeGateDispatch, GradientsComeFromKeptTokens) {
  const Tensor x = literal_x().requires_grad_(), scores = literal_scores().requires_grad_();
  const auto out = moe_gate_dispatch(x, scores, {}, 2, 3, true);
  (sum(out.y * doubles({1, 2, 3, 4, 5, 6}, {6, 1})) + sum(out.weights * doubles({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2})))
      .backward();
  // Rows of tokens: 0 has 0 and 4, 1 has 3, 2 has 1 and 5, 3 has 2.
  expect_values(x.grad(), {6, 4, 8, 3}, 0);
  expect_values(scores.grad(), {1, 2, 0, 3, 5, 6, 7, 0}, 0);
}

TEST(MoeGateDispatch, RejectsInvalidArguments) {
  const Tensor x = literal_x(), scores = literal_scores();
  EXPECT_THROW(moe_gate_dispatch(x, scores, {}, 3, 2, true), ValueError);
  EXPECT_THROW(moe_gate_dispatch(x, scores, {}, -1, 2, true), ValueError);
  EXPECT_THROW(moe_gate_dispatch(x, scores, {}, 1, -1, true), ValueError);
  EXPECT_THROW(moe_gate_dispatch(x, scores, {}, 1, int64_t{1} << 40, true), ValueError);
  EXPECT_THROW(moe_gate_dispatch(x, spread({3, 2}), {}, 1, 1, true), ShapeError);
  EXPECT_THROW(moe_gate_dispatch(x, scores, spread({3}), 1, 1, true), ShapeError);
  EXPECT_THROW(moe_gate_dispatch(x, scores.to(i64), {}, 1, 1, true), DTypeError);
}

TEST(MoeGateDispatch, OfNoTokensAndOfNoRoomIsEmpty) {
  const auto none = moe_gate_dispatch(zeros({0, 3}, f32), zeros({0, 2}, f32), {}, 2, 2, false);
  EXPECT_EQ(none.y.shape(), (Dims{0, 3}));
  EXPECT_EQ(none.scatter.shape(), (Dims{2, 0}));
  const auto full_up = moe_gate_dispatch(literal_x(), literal_scores(), {}, 2, 0, false);
  EXPECT_EQ(full_up.y.shape(), (Dims{0, 1}));
  expect_values(moe_combine(full_up.y, full_up.weights, full_up.scatter), {0, 0, 0, 0}, 0);
}

TEST(MoeCombine, LeavesOutDroppedRowsEvenOfNanAndInfinity) {
  const Tensor y = doubles({nan, 2}, {2, 1}), weights = doubles({nan, .5}, {1, 2});
  expect_values(moe_combine(y, weights, tensor({{-1}, {1}})), {1}, 0);
  const Tensor infinite = doubles({infinity, 2}, {2, 1});
  expect_values(moe_combine(infinite, doubles({0, .5}, {1, 2}), tensor({{-1}, {1}})), {1}, 0);
}

TEST(MoeCombine, GradientsOnlyOfCountedRows) {
  const Tensor y = doubles({1, 2, 3, 4}, {2, 2}).requires_grad_(), weights = doubles({.5, .25, 2, 9}, {2, 2});
  weights.requires_grad_();
  const Tensor out = moe_combine(y, weights, tensor({{1, 0}, {0, -1}}));
  expect_values(out, {1.5 + .25, 2 + .5, 2, 4});
  sum(out * doubles({1, 10, 100, 1000}, {2, 2})).backward();
  expect_values(y.grad(), {.25 + 200, 2.5 + 2000, .5, 5});
  expect_values(weights.grad(), {3 + 40, 1 + 20, 100 + 2000, 0});
}

TEST(MoeCombine, ARowThatTwoTokensReadGetsBothGradients) {
  const Tensor y = doubles({3}, {1, 1}).requires_grad_();
  sum(moe_combine(y, doubles({2, 5}, {2, 1}), tensor({{0, 0}}))).backward();
  expect_values(y.grad(), {7}, 0);
}

TEST(MoeCombine, RefusesRowsThatAreNotThere) {
  const Tensor y = spread({2, 1}), weights = spread({1, 1});
  EXPECT_THROW(moe_combine(y, weights, tensor({{2}})), IndexError);
  EXPECT_THROW(moe_combine(y, weights, tensor({{-2}})), IndexError);
  EXPECT_THROW(moe_combine(y, weights, tensor({{0, 1}})), ShapeError);
  EXPECT_THROW(moe_combine(y, weights, zeros({1, 1}, f32)), DTypeError);
}

/// Choices and slots in loops over numbers.
Doubles combined_by_loops(const Tensor& x, const Tensor& scores, int64_t k, int64_t capacity) {
  const int64_t tokens = x.size(0), width = x.size(1), experts = scores.size(1);
  const Doubles xs = values(x), ss = values(scores);
  Doubles out(xs.size(), 0);
  std::vector<Sizes> order;
  for (int64_t s = 0; s < tokens; ++s) {
    Sizes ids(static_cast<size_t>(experts));
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::stable_sort(ids, [&](int64_t a, int64_t b) {
      return ss[static_cast<size_t>(s * experts + a)] > ss[static_cast<size_t>(s * experts + b)];
    });
    order.push_back(ids);
  }
  Sizes taken(static_cast<size_t>(experts), 0);
  for (int64_t j = 0; j < k; ++j) {
    for (int64_t s = 0; s < tokens; ++s) {
      const int64_t e = order[static_cast<size_t>(s)][static_cast<size_t>(j)];
      if (taken[static_cast<size_t>(e)]++ >= capacity) continue;
      for (int64_t h = 0; h < width; ++h) {
        out[static_cast<size_t>(s * width + h)] +=
            ss[static_cast<size_t>(s * experts + e)] * xs[static_cast<size_t>(s * width + h)];
      }
    }
  }
  return out;
}

TEST(MoeGateDispatch, AndCombineEqualLoopsForEverySize) {
  for (const int64_t tokens : {1, 31, 33, 700}) {
    for (const int64_t experts : {1, 4, 65, 256}) {
      for (const int64_t k : {int64_t{1}, std::min<int64_t>(experts, 8)}) {
        for (const int64_t capacity : {int64_t{1}, 2 * tokens * k / experts + 1, tokens}) {
          const Tensor x = spread({tokens, 5}, 3).to(f32), scores = softmax(spread({tokens, experts}, 4).to(f32), 1);
          for (const bool pad : {true, false}) {
            const auto out = moe_gate_dispatch(x, scores, {}, k, capacity, pad);
            expect_values(moe_combine(out.y, out.weights, out.scatter), combined_by_loops(x, scores, k, capacity),
                          1e-5);
          }
        }
      }
    }
  }
}

TEST(GroupedLinear, IsALinearOfEachBlock) {
  const Tensor x = doubles({1, 2, 3, 4, 5, 6}, {3, 2}),
               weight = doubles({1, 0, 0, 1, 9, 9, 9, 9, 2, 0, 0, 2}, {3, 2, 2});
  expect_values(grouped_linear(x, weight, Sizes{1, 0, 2}), {1, 2, 6, 8, 10, 12}, 0);
  EXPECT_EQ(grouped_linear(zeros({0, 2}, f64), weight, Sizes{0, 0, 0}).shape(), (Dims{0, 2}));
}

TEST(GroupedLinear, ExpertsWithoutRowsGetAGradientOfZero) {
  const Tensor weight = leaf({3, 2, 2});
  sum(grouped_linear(doubles({1, 2}, {1, 2}), weight, Sizes{0, 1, 0})).backward();
  expect_values(weight.grad(), {0, 0, 0, 0, 1, 2, 1, 2, 0, 0, 0, 0}, 0);
}

TEST(GroupedLinear, RefusesBlocksThatAreNotTheRows) {
  const Tensor x = spread({3, 2}), weight = spread({2, 4, 2});
  EXPECT_THROW(grouped_linear(x, weight, Sizes{1, 1}), ShapeError);
  EXPECT_THROW(grouped_linear(x, weight, Sizes{4, -1}), ShapeError);
  EXPECT_THROW(grouped_linear(x, weight, Sizes{1, 1, 1}), ShapeError);
  EXPECT_THROW(grouped_linear(x, spread({2, 4, 3}), Sizes{1, 2}), ShapeError);
  EXPECT_THROW(grouped_linear(x, weight.to(f32), Sizes{1, 2}), DTypeError);
}

}  // namespace
}  // namespace weft::testing
