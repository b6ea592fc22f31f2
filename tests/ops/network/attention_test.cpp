#include <cmath>

#include <weft/ops/attention.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

struct Options {
  bool causal = false;
  double scale = 0;  // 0: 1 / sqrt(E)
};

// Attention of matrices by a loop; `bias` [L, S] may be empty.
Doubles reference(const Tensor& q, const Tensor& k, const Tensor& v, const Doubles& bias, Options o) {
  const auto queries = static_cast<size_t>(q.size(0)), keys = static_cast<size_t>(k.size(0));
  const auto width = static_cast<size_t>(q.size(1)), out_width = static_cast<size_t>(v.size(1));
  const Doubles qs = values(q), ks = values(k), vs = values(v);
  const double scale = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(width));
  Doubles out;
  for (size_t i = 0; i < queries; ++i) {
    Doubles w(keys);
    double sum = 0;
    for (size_t j = 0; j < keys; ++j) {
      double score = 0;
      for (size_t d = 0; d < width; ++d) score += qs[i * width + d] * ks[j * width + d];
      score = score * scale + (bias.empty() ? 0 : bias[i * keys + j]);
      sum += w[j] = o.causal && j > i ? 0 : std::exp(score);
    }
    for (size_t d = 0; d < out_width; ++d) {
      double y = 0;
      for (size_t j = 0; j < keys; ++j) y += w[j] * vs[j * out_width + d];
      out.push_back(sum > 0 ? y / sum : 0);
    }
  }
  return out;
}

Doubles reference_4d(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, Options o) {
  Doubles out;
  for (int64_t b = 0; b < q.size(0); ++b) {
    for (int64_t h = 0; h < q.size(1); ++h) {
      const int64_t g = h * k.size(1) / q.size(1);
      const Doubles shift = bias.defined() ? values(bias.select(0, b).select(0, h)) : Doubles();
      const Doubles part =
          reference(q.select(0, b).select(0, h), k.select(0, b).select(0, g), v.select(0, b).select(0, g), shift, o);
      out.insert(out.end(), part.begin(), part.end());
    }
  }
  return out;
}

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {}, bool causal = false) {
  return scaled_dot_product_attention(q, k, v, {.mask = mask, .causal = causal});
}

TEST(Attention, ValuesAreThoseOfALoop) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{4, 4}, {1, 6}, {5, 3}, {33, 40}}) {
    const Tensor q = spread({2, 3, queries, 8}, 1), k = spread({2, 3, keys, 8}, 2), v = spread({2, 3, keys, 5}, 3);
    const Tensor bias = spread({2, 3, queries, keys}, 4);
    for (const bool causal : {false, true}) {
      expect_values(attend(q, k, v, {}, causal), reference_4d(q, k, v, {}, {causal}), 1e-10);
      expect_values(attend(q, k, v, bias, causal), reference_4d(q, k, v, bias, {causal}), 1e-10);
    }
    expect_values(scaled_dot_product_attention(q, k, v, {.scale = 0.3}), reference_4d(q, k, v, {}, {false, 0.3}),
                  1e-10);
  }
}

TEST(Attention, ShapesOfOtherRanksAndBroadcasting) {
  const Tensor q = spread({3, 4}, 1), k = spread({5, 4}, 2), v = spread({5, 2}, 3);
  expect_values(attend(q, k, v), reference(q, k, v, {}, {}));
  const Tensor three = attend(stack({q, q}), stack({k, k}), stack({v, v}));
  EXPECT_EQ(three.shape(), Dims({2, 3, 2}));
  expect_values(three.select(0, 1), reference(q, k, v, {}, {}));
  const Tensor q5 = spread({2, 1, 3, 3, 4}, 4), k5 = spread({3, 2, 5, 4}, 5).narrow(1, 0, 1), v5 = spread({1, 5, 2}, 6);
  const Tensor y = attend(q5, k5, v5);
  EXPECT_EQ(y.shape(), Dims({2, 3, 3, 3, 2}));
  expect_values(
      y.select(0, 1).select(0, 2).select(0, 1),
      reference(q5.select(0, 1).select(0, 0).select(0, 1), k5.select(0, 2).select(0, 0), v5.select(0, 0), {}, {}));
}

TEST(Attention, Masks) {
  const Tensor q = spread({2, 2, 3, 4}, 1), k = spread({2, 2, 5, 4}, 2), v = spread({2, 2, 5, 4}, 3);
  const Tensor seen = SampleMaker(f64, {}, 7).mask({2, 1, 3, 5});
  const Tensor bias =
      weft::where(seen, doubles({0}).reshape({}), doubles({-infinity}).reshape({})).expand({2, 2, 3, 5});
  expect_values(attend(q, k, v, seen), reference_4d(q, k, v, bias, {}), 1e-10);
  expect_values(attend(q, k, v, seen, true), reference_4d(q, k, v, bias, {true}), 1e-10);
  for (const Dims& shape : {Dims{3, 5}, Dims{1, 5}, Dims(5), Dims{2, 1, 1, 5}, Dims{2, 3, 1}, Dims()}) {
    const Tensor m = spread(shape, 8);
    expect_values(attend(q, k, v, m), reference_4d(q, k, v, m.expand({2, 2, 3, 5}), {}), 1e-10);
  }
}

TEST(Attention, AQueryWithoutKeysGivesZerosAndZeroGradients) {
  const std::vector<Tensor> in = {leaf({1, 1, 2, 3}, 1), leaf({1, 1, 2, 3}, 2), leaf({1, 1, 2, 3}, 3)};
  const Tensor mask = tensor({{1, 1}, {0, 0}}).to(boolean);
  const Tensor y = attend(in[0], in[1], in[2], mask);
  expect_values(y.narrow(2, 1, 1), {0, 0, 0});
  for (const bool recorded : {false, true}) {
    const auto g = grad({y.sum()}, {in[0], in[1], in[2]}, {}, {.retain_graph = true, .create_graph = recorded});
    expect_values(g[0].narrow(2, 1, 1), {0, 0, 0});
    for (const Tensor& t : g) {
      for (const double x : values(t)) EXPECT_TRUE(std::isfinite(x));
    }
  }
  expect_gradients([&](Inputs x) { return attend(x[0], x[1], x[2], mask); }, in);
}

TEST(Attention, GroupedHeads) {
  const Tensor q = spread({2, 6, 3, 4}, 1), k = spread({2, 2, 5, 4}, 2), v = spread({2, 2, 5, 3}, 3);
  expect_values(scaled_dot_product_attention(q, k, v, {.enable_gqa = true}), reference_4d(q, k, v, {}, {}), 1e-10);
  const Tensor bias = spread({2, 6, 3, 5}, 4);
  expect_values(scaled_dot_product_attention(q, k, v, {.mask = bias, .causal = true, .enable_gqa = true}),
                reference_4d(q, k, v, bias, {true}), 1e-10);
  const Tensor shared = spread({1, 3, 5}, 5);
  expect_values(scaled_dot_product_attention(q, k, v, {.mask = shared, .causal = true, .enable_gqa = true}),
                reference_4d(q, k, v, shared.expand({2, 6, 3, 5}), {true}), 1e-10);
  const Tensor flat =
      scaled_dot_product_attention(q.select(0, 0), k.select(0, 0), v.select(0, 0), {.enable_gqa = true});
  EXPECT_EQ(flat.shape(), Dims({6, 3, 3}));
  EXPECT_THROW(attend(q, k, v), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(spread({2, 5, 3, 4}), k, v, {.enable_gqa = true}), ShapeError);
  expect_gradients(
      [](Inputs x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true, .enable_gqa = true}); },
      {leaf({1, 4, 2, 2}, 1), leaf({1, 2, 3, 2}, 2), leaf({1, 2, 3, 2}, 3)});
}

TEST(Attention, Gradient) {
  const std::vector<Tensor> in = {leaf({1, 2, 3, 2}, 1), leaf({1, 2, 4, 2}, 2), leaf({1, 2, 4, 3}, 3)};
  const Tensor seen = SampleMaker(f64, {}, 3).mask({3, 4});
  expect_gradients([](Inputs x) { return attend(x[0], x[1], x[2]); }, in);
  expect_gradients([](Inputs x) { return attend(x[0], x[1], x[2], {}, true); }, in);
  expect_gradients([&](Inputs x) { return attend(x[0], x[1], x[2], seen); }, in);
  expect_gradients([](Inputs x) { return attend(x[0], x[1], x[2], x[3], true); },
                   {in[0], in[1], in[2], leaf({3, 4}, 4)});
  expect_gradients([](Inputs x) { return attend(x[0], x[0], x[0]); }, {leaf({3, 2})});
  expect_gradients(
      [](Inputs x) { return attend(x[0].transpose(1, 2), x[0].transpose(1, 2), x[0].transpose(1, 2), {}, true); },
      {leaf({1, 3, 2, 2})});
}

TEST(Attention, Dropout) {
  const Tensor q = spread({1, 2, 3, 4}, 1), k = spread({1, 2, 5, 4}, 2), v = spread({1, 2, 5, 4}, 3);
  expect_values(scaled_dot_product_attention(q, k, v, {.dropout_p = 1}), Doubles(24, 0));
  expect_gradients(
      [](Inputs x) {
        const RngForkGuard guard;
        return scaled_dot_product_attention(x[0], x[1], x[2], {.dropout_p = 0.3});
      },
      {leaf({1, 1, 2, 2}, 1), leaf({1, 1, 3, 2}, 2), leaf({1, 1, 3, 2}, 3)});
}

TEST(Attention, ZeroSized) {
  EXPECT_EQ(attend(zeros({2, 0, 4}), zeros({2, 3, 4}), zeros({2, 3, 4})).shape(), Dims({2, 0, 4}));
  EXPECT_EQ(attend(zeros({0, 2, 4}), zeros({0, 3, 4}), zeros({0, 3, 4})).shape(), Dims({0, 2, 4}));
  expect_values(attend(ones({1, 2, 2}), ones({1, 0, 2}), ones({1, 0, 2})), {0, 0, 0, 0});
  expect_values(attend(ones({1, 2, 2}), ones({1, 0, 2}), ones({1, 0, 2}), {}, true), {0, 0, 0, 0});
}

TEST(Attention, SixteenBitFloatsAreComputedInFloat32) {
  const Tensor q = spread({1, 2, 4, 8}, 1).to(bf16), k = spread({1, 2, 4, 8}, 2).to(bf16);
  const Tensor y = attend(q, k, k);
  EXPECT_EQ(y.dtype(), bf16);
  expect_values(y, values(attend(q.to(f64), k.to(f64), k.to(f64))), 1e-2);
  const Tensor leaf = q.detach().requires_grad_();
  attend(leaf, k, k).sum().backward();
  EXPECT_EQ(leaf.grad().dtype(), bf16);
}

TEST(Attention, GradientsOfHugeScoresAreFinite) {
  manual_seed(3);
  for (const DType dtype : {f32, f64}) {
    const double scale = dtype == f32 ? 1e30 : 1e39;
    const Tensor q = randn({4, 2, 9, 3}, dtype).requires_grad_(), k = randn({4, 2, 40, 3}, dtype);
    scaled_dot_product_attention(q, k, randn({4, 2, 40, 2}, dtype), {.scale = scale}).sum().backward();
    EXPECT_TRUE(isfinite(q.grad()).all().item<bool>());
  }
}

TEST(Attention, Errors) {
  const Tensor q = spread({2, 3, 4}), v = spread({2, 5, 4});
  EXPECT_THROW(attend(q, spread({2, 5, 3}), v), ShapeError);
  EXPECT_THROW(attend(q, spread({2, 6, 4}), v), ShapeError);
  EXPECT_THROW(attend(q, spread({3, 5, 4}), v), ShapeError);
  EXPECT_THROW(attend(spread({4}), v, v), ShapeError);
  EXPECT_THROW(attend(q, v, v.to(f32)), DTypeError);
  EXPECT_THROW(attend(q.to(i64), v.to(i64), v.to(i64)), DTypeError);
  EXPECT_THROW(attend(q, v, v, ones({3, 4})), ShapeError);
  EXPECT_THROW(attend(q, v, v, ones({3, 2, 3, 5})), ShapeError);
  EXPECT_THROW(attend(q, v, v, ones({3, 5}, i64)), DTypeError);
  EXPECT_THROW(scaled_dot_product_attention(q, v, v, {.dropout_p = 1.5}), ValueError);
  EXPECT_THROW(attend(q, Tensor(), v), ValueError);
}

}  // namespace
}  // namespace weft::testing
