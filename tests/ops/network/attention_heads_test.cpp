// attention(), its variants over packed sequences and caches, and their errors.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <weft/ops/attention.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/kv_cache.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/error.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AlibiSlopes, EqualThePaperForAnyNumberOfHeads) {
  const std::vector<std::pair<int64_t, Doubles>> cases{
      {1, {.00390625}},
      {2, {.0625, .00390625}},
      {3, {.0625, .00390625, .25}},
      {4, {.25, .0625, .015625, .00390625}},
      {6, {.25, .0625, .015625, .00390625, .5, .125}},
      {8, {.5, .25, .125, .0625, .03125, .015625, .0078125, .00390625}}};
  for (const auto& [n, expected] : cases) EXPECT_EQ(alibi_slopes(n), expected) << n;
  Doubles twelve = alibi_slopes(8);
  for (const double x : {.70710678, .35355339, .1767767, .08838835}) twelve.push_back(x);
  expect_near(alibi_slopes(12), twelve, 1e-8);
  for (int64_t n = 1; n < 300; ++n) EXPECT_EQ(std::ssize(alibi_slopes(n)), n);
  EXPECT_THROW(alibi_slopes(0), ValueError);
  EXPECT_THROW(alibi_slopes(-3), ValueError);
}

TEST(HeadAttention, AddsSlopesByDistanceAndKeepsCausality) {
  const Tensor q = zeros({1, 2, 1, 1}), v = doubles({1, 3}, {1, 2, 1, 1}).to(f32);
  for (const auto backend : {AttentionBackend::math, AttentionBackend::fused}) {
    const Tensor out = attention(q, q, v, {.causal = true, .alibi_slopes = full({1}, 0.5), .backend = backend});
    expect_values(out.to(f64), {1, 2.2449187}, 1e-6);
  }
}

TEST(HeadAttention, CausalityIsAlignedAtTheEnd) {
  const Tensor v = doubles({1, 2, 4}, {1, 3, 1, 1});
  const auto attend = [&](int64_t queries, int64_t keys, AttentionWindow window, AttentionBackend backend) {
    const Tensor q = zeros({1, queries, 1, 1}, f64), k = zeros({1, keys, 1, 1}, f64);
    return values(attention(q, k, v.narrow(1, 0, keys), {.causal = true, .window = window, .backend = backend}));
  };
  for (const auto backend : {AttentionBackend::math, AttentionBackend::fused}) {
    expect_near(attend(1, 3, {}, backend), {7.0 / 3});
    expect_near(attend(2, 3, {}, backend), {1.5, 7.0 / 3});
    // The first of three queries of two keys is before them, and sees none.
    expect_near(attend(3, 2, {}, backend), {0, 1, 1.5});
    expect_near(attend(2, 3, {0, -1}, backend), {2, 4});
    expect_near(attend(2, 3, {1, -1}, backend), {1.5, 3});
  }
}

TEST(HeadAttention, ACallWithoutKeysGivesZerosAndZeroGradients) {
  for (const auto backend : {AttentionBackend::math, AttentionBackend::fused}) {
    const std::vector<Tensor> x{leaf({1, 3, 2, 4}, 1), leaf({1, 2, 1, 4}, 2), leaf({1, 2, 1, 4}, 3)};
    const Tensor out = attention(x[0], x[1], x[2], {.causal = true, .backend = backend});
    expect_values(out.narrow(1, 0, 1), Doubles(8, 0));
    out.sum().backward();
    expect_values(x[0].grad().narrow(1, 0, 1), Doubles(8, 0));
    for (const Tensor& t : x) {
      for (const double g : values(t.grad())) EXPECT_TRUE(std::isfinite(g));
    }
    const Tensor none = zeros({1, 1, 1, 2}, boolean);
    const std::vector<Tensor> y{leaf({1, 1, 2, 4}, 1), leaf({1, 2, 1, 4}, 2), leaf({1, 2, 1, 4}, 3)};
    const Tensor blind = attention(y[0], y[1], y[2], {.mask = none, .backend = backend});
    expect_values(blind, Doubles(8, 0));
    blind.sum().backward();
    for (const Tensor& t : y) expect_values(t.grad(), Doubles(static_cast<size_t>(t.numel()), 0));
    expect_values(attention(ones({1, 2, 2, 3}), ones({1, 0, 1, 3}), ones({1, 0, 1, 3}), {.backend = backend}),
                  Doubles(12, 0));
    EXPECT_EQ(attention(ones({0, 2, 2, 3}), ones({0, 4, 1, 3}), ones({0, 4, 1, 5}), {.backend = backend}).shape(),
              Dims({0, 2, 2, 5}));
    EXPECT_EQ(attention(ones({2, 0, 2, 3}), ones({2, 4, 1, 3}), ones({2, 4, 1, 5}), {.backend = backend}).shape(),
              Dims({2, 0, 2, 5}));
  }
}

TEST(HeadAttention, GradientsToSecondOrderOnEveryBackend) {
  const std::vector<Tensor> x{leaf({1, 3, 4, 2}, 1), leaf({1, 4, 2, 2}, 2), leaf({1, 4, 2, 3}, 3)};
  const Tensor slopes = doubles(alibi_slopes(4)), seen = SampleMaker(f64, {}, 3).mask({3, 4});
  for (const auto backend : {AttentionBackend::math, AttentionBackend::fused}) {
    expect_gradients(
        [&](Inputs in) {
          return attention(in[0], in[1], in[2],
                           {.mask = seen, .causal = true, .alibi_slopes = slopes, .backend = backend});
        },
        x);
    expect_gradients(
        [&](Inputs in) {
          return attention(in[0], in[1], in[2], {.window = {1, 0}, .backend = backend});
        },
        x);
  }
  expect_gradients(
      [](Inputs in) { return attention(in[0], in[1], in[2], {.mask = in[3], .causal = true, .alibi_slopes = in[4]}); },
      {x[0], x[1], x[2], leaf({4, 1, 4}, 4), leaf({4}, 5, 0.1, 0.5)});
}

TEST(HeadAttention, TheTwoNamesAreOneFunctionOfPermutedOperands) {
  const Tensor q = spread({2, 5, 6, 4}, 1), k = spread({2, 5, 3, 4}, 2), v = spread({2, 5, 3, 4}, 3);
  const auto turned = [](const Tensor& t) { return t.transpose(1, 2); };
  expect_values(attention(q, k, v, {.causal = true}),
                values(turned(scaled_dot_product_attention(turned(q), turned(k), turned(v),
                                                           {.causal = true, .enable_gqa = true}))),
                1e-12);
}

TEST(HeadAttention, WeightsAreTheFactorsOfTheValues) {
  const Tensor q = spread({2, 3, 2, 4}, 1), k = spread({2, 5, 2, 4}, 2), v = spread({2, 5, 2, 4}, 3);
  for (const double dropout : {0.0, 0.4}) {
    const WeightedAttention out = attention_with_weights(q, k, v, {.causal = true, .dropout = dropout});
    EXPECT_EQ(out.weights.shape(), Dims({2, 2, 3, 5}));
    expect_values(out.output, values(matmul(out.weights, v.transpose(1, 2)).transpose(1, 2)), 1e-12);
  }
  expect_values(attention(q, k, v, {.dropout = 1}), Doubles(48, 0));
}

TEST(AttentionBackends, GiveReasonsForIneligibleOnes) {
  const Tensor q = spread({1, 2, 2, 4}), mask = zeros({2, 2}, f64).requires_grad_(), slopes = leaf({2});
  const auto fused = attention_backends(q, q, q);
  ASSERT_EQ(fused.size(), 2);
  EXPECT_EQ(fused[0].backend, AttentionBackend::fused);
  EXPECT_TRUE(fused[0].reasons.empty() && fused[1].reasons.empty());
  EXPECT_EQ(fused[1].backend, AttentionBackend::math);
  const AttentionArguments all{.mask = mask, .dropout = 0.5, .alibi_slopes = slopes};
  EXPECT_THAT(attention_backends(q, q, q, all, true)[0].reasons,
              ElementsAre(HasSubstr("weights"), HasSubstr("dropout"), HasSubstr("mask"), HasSubstr("alibi_slopes")));
  AttentionArguments forced = all;
  forced.backend = AttentionBackend::fused;
  try {
    attention(q, q, q, forced);
    FAIL();
  } catch (const ValueError& e) {
    for (const char* word : {"dropout", "mask", "alibi_slopes"}) EXPECT_THAT(e.what(), HasSubstr(word));
  }
  EXPECT_THROW(attention_with_weights(q, q, q, {.backend = AttentionBackend::fused}), ValueError);
  EXPECT_EQ(attention(q, q, q, all).shape(), q.shape());
}

TEST(HeadAttention, Errors) {
  const Tensor q = spread({2, 3, 4, 8}), k = spread({2, 5, 2, 8});
  EXPECT_THROW(attention(q, k, spread({2, 5, 1, 8})), ShapeError);
  EXPECT_THROW(attention(q, spread({2, 5, 3, 8}), spread({2, 5, 3, 8})), ShapeError);
  EXPECT_THROW(attention(q, spread({1, 5, 2, 8}), spread({1, 5, 2, 8})), ShapeError);
  EXPECT_THROW(attention(q, spread({2, 5, 2, 7}), k), ShapeError);
  EXPECT_THROW(attention(q, k, spread({2, 4, 2, 8})), ShapeError);
  EXPECT_THROW(attention(q.select(0, 0), k.select(0, 0), k.select(0, 0)), ShapeError);
  EXPECT_THROW(attention(Tensor(), k, k), ValueError);
  EXPECT_THROW(attention(q, k.to(f32), k), DTypeError);
  EXPECT_THROW(attention(q.to(i64), k.to(i64), k.to(i64)), DTypeError);
  EXPECT_THROW(attention(q, k, k, {.mask = ones({2, 4, 5, 3})}), ShapeError);
  EXPECT_THROW(attention(q, k, k, {.mask = ones({3, 5}, i64)}), DTypeError);
  EXPECT_THROW(attention(q, k, k, {.dropout = 1.5}), ValueError);
  EXPECT_THROW(attention(q, k, k, {.dropout = nan}), ValueError);
  EXPECT_THROW(attention(q, k, k, {.alibi_slopes = ones({3})}), ShapeError);
  EXPECT_THROW(attention(q, k, k, {.alibi_slopes = ones({1, 4})}), ShapeError);
  EXPECT_THROW(attention(q, k, k, {.alibi_slopes = ones({4}, i64)}), DTypeError);
  EXPECT_THROW(attention(q, k, k, {.window = {-2, 0}}), ValueError);
}

TEST(PackedAttention, GradientsToSecondOrder) {
  const std::vector<Tensor> x{leaf({4, 2, 2}, 1), leaf({5, 1, 2}, 2), leaf({5, 1, 3}, 3)};
  const Tensor of_q = tensor({0, 1, 1, 4}), of_k = tensor({0, 2, 2, 5});
  for (const auto backend : {AttentionBackend::math, AttentionBackend::fused}) {
    expect_gradients(
        [&](Inputs in) {
          return attention_varlen(in[0], in[1], in[2], of_q, of_k, {.causal = true, .backend = backend});
        },
        x);
  }
}

TEST(PackedAttention, Errors) {
  const Tensor q = spread({4, 2, 2}), of = tensor({0, 1, 4});
  EXPECT_NO_THROW(attention_varlen(q, q, q, of, of));
  EXPECT_THROW(attention_varlen(q, q, q, of, tensor({0, 4})), ShapeError);
  EXPECT_THROW(attention_varlen(q, q, q, tensor({0, 3, 2, 4}), tensor({0, 3, 2, 4})), ValueError);
  EXPECT_THROW(attention_varlen(q, q, q, tensor({0, 3}), tensor({0, 3})), ValueError);
  EXPECT_THROW(attention_varlen(q, q, q, tensor({1, 4}), tensor({1, 4})), ValueError);
  EXPECT_THROW(attention_varlen(q, q, q, tensor({0, 5}), tensor({0, 5})), ValueError);
  EXPECT_THROW(attention_varlen(q, q, q, of.to(f32), of), DTypeError);
  EXPECT_THROW(attention_varlen(q, q, q, of.unsqueeze(0), of), ShapeError);
  EXPECT_THROW(attention_varlen(q, q, q, empty({0}, i64), empty({0}, i64)), ShapeError);
  EXPECT_THROW(attention_varlen(q, q, q, Tensor(), of), ValueError);
  EXPECT_EQ(attention_varlen(empty({0, 2, 2}), empty({0, 2, 2}), empty({0, 2, 3}), tensor({0}), tensor({0})).shape(),
            Dims({0, 2, 3}));
}

TEST(KvCache, RejectsOverflowBeforeWriting) {
  KvCache cache(2, 3, 1, 2, {f64});
  const Tensor k = spread({4, 1, 2}, 1), v = spread({4, 1, 2}, 2);
  const std::vector<int64_t> counts{1, 3};
  cache.append(k, v, counts);
  EXPECT_THAT(cache.lengths(), ElementsAre(1, 3));
  const Doubles before = values(cache.k());
  const std::vector<int64_t> more{1, 1};
  EXPECT_THROW(cache.append(k.narrow(0, 0, 2), v.narrow(0, 0, 2), more), IndexError);
  EXPECT_THAT(cache.lengths(), ElementsAre(1, 3));
  EXPECT_EQ(values(cache.k()).size(), before.size());
  expect_values(cache.k().select(0, 1), values(k.narrow(0, 1, 3)));
  EXPECT_THROW(cache.append(k, v, more), ShapeError);
  EXPECT_THROW(cache.append(k.unsqueeze(0), v.unsqueeze(0)), ShapeError);
  const std::vector<int64_t> negative{-1, 5}, three{1, 1, 2};
  EXPECT_THROW(cache.append(k, v, negative), ValueError);
  EXPECT_THROW(cache.append(k, v, three), ValueError);
  cache.truncate(1, 1);
  EXPECT_THAT(cache.lengths(), ElementsAre(1, 1));
  EXPECT_THROW(cache.truncate(1, 2), ValueError);
  EXPECT_THROW(cache.truncate(2, 0), IndexError);
  const Tensor q = spread({2, 2, 1, 2});
  EXPECT_THROW(attention(q, cache), ValueError);  // two queries of one token
  EXPECT_THROW(attention(leaf({2, 1, 1, 2}), cache), ValueError);
  EXPECT_THROW(attention(q.narrow(0, 0, 1), cache), ShapeError);
}

}  // namespace
}  // namespace weft::testing
