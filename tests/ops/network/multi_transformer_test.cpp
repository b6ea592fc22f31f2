// Layers over caches beside the same layers by public ops over whole sequences, in double.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <weft/autograd/mode.hpp>
#include <weft/backends/backend.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/multi_transformer.hpp>
#include <weft/ops/norm.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/rotary.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

using Counts = std::vector<int64_t>;
using Layers = std::vector<MultiTransformerLayer>;

constexpr int64_t width = 12, heads = 4, kv_heads = 2, size = 6, hidden = 10;
const MultiTransformerOptions plain{.num_heads = heads, .head_dim = size};

Layers some_layers(DType dtype, int64_t n = 3) {
  Layers out;
  for (int64_t i = 0; i < n; ++i) {
    auto weight = [dtype, seed = static_cast<uint64_t>(10 * i + 1)](const Dims& shape, double at = 0) mutable {
      return (spread(shape, seed++, -.4, .4) + at).to(dtype);
    };
    out.push_back({weight({width}, 1), weight({(heads + 2 * kv_heads) * size, width}), weight({heads * size, width}),
                   weight({width}, 1), weight({width, 2 * hidden}), weight({hidden, width})});
  }
  return out;
}

LayeredKvCache some_cache(DType dtype, int64_t batch, int64_t capacity = 16, int64_t layers = 3) {
  return {layers, batch, capacity, kv_heads, size, {.dtype = dtype}};
}

/// The layers of one sequence x [S, H] at `positions`, without a cache and without fused ops.
Tensor by_hand(const Tensor& x, const Layers& layers, const Tensor& positions, bool interleaved = false,
               int64_t left = -1) {
  const int64_t n = x.size(0);
  const Tensor rope = rope_table(positions, size, {}, interleaved, f64).squeeze(0).squeeze(1).reshape({2, n, 1, size});
  Tensor h = x.to(f64);
  for (const MultiTransformerLayer& w : layers) {
    const auto f = [](const Tensor& t) { return t.to(f64); };
    const Tensor all = matmul(rms_norm(h, {width}, f(w.ln_weight), 1e-5), f(w.qkv_weight).t())
                           .reshape({n, heads + 2 * kv_heads, size});
    const Tensor q = rotary_embedding(all.narrow(1, 0, heads), rope, interleaved);
    const Tensor k = rotary_embedding(all.narrow(1, heads, kv_heads), rope, interleaved);
    std::vector<Tensor> mixed;
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t shared = head / (heads / kv_heads);
      Tensor scores = matmul(q.select(1, head), k.select(1, shared).t()) / std::sqrt(static_cast<double>(size));
      const Tensor row = arange(0, n, 1, i64).unsqueeze(1), column = arange(0, n, 1, i64);
      Tensor hidden_keys = column > row;
      if (left >= 0) hidden_keys = logical_or(hidden_keys, column < row - left);
      scores = where(hidden_keys, full({}, -infinity, f64), scores);
      const Tensor e = exp(scores - scores.amax({1}, true));
      mixed.push_back(matmul(e / e.sum({1}, true), all.select(1, heads + kv_heads + shared)));
    }
    h = h + matmul(cat(mixed, 1), f(w.out_weight));
    const Tensor both = matmul(rms_norm(h, {width}, f(w.mlp_ln_weight), 1e-5), f(w.proj));
    const Tensor gate = both.narrow(1, 0, hidden), up = both.narrow(1, hidden, hidden);
    h = h + matmul(gate * sigmoid(gate) * up, f(w.down));
  }
  return h;
}

Tensor counted(int64_t n, int64_t first = 0) { return arange(first, first + n, 1, i64); }

void expect_same(const Tensor& actual, const Tensor& expected, double tolerance) {
  ASSERT_EQ(actual.shape(), expected.shape());
  expect_values(actual, values(expected), tolerance);
}

double tolerance_for(DType dtype) { return dtype == f64 ? 1e-12 : dtype == f32 ? 1e-4 : dtype == f16 ? 2e-2 : 1e-1; }

TEST(FusedMultiTransformer, APromptEqualsTheLayersInPublicOps) {
  const NoGradGuard unrecorded;
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const Layers layers = some_layers(dtype);
    const Tensor x = spread({2, 7, width}, 5).to(dtype);
    for (const bool interleaved : {false, true}) {
      LayeredKvCache cache = some_cache(dtype, 2);
      MultiTransformerOptions o = plain;
      o.interleaved = interleaved;
      const Tensor y = fused_multi_transformer(x, layers, cache, o);
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(cache.lengths(), (Counts{7, 7}));
      for (int64_t b = 0; b < 2; ++b) {
        expect_same(y.select(0, b), by_hand(x.select(0, b), layers, counted(7), interleaved), tolerance_for(dtype));
      }
    }
  }
}

TEST(FusedMultiTransformer, APromptAtOnceIsItsTokensOneByOneAndInPieces) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f64);
  const Tensor x = spread({2, 9, width}, 6);
  LayeredKvCache whole = some_cache(f64, 2), single = some_cache(f64, 2), pieces = some_cache(f64, 2);
  const Tensor expected = fused_multi_transformer(x, layers, whole, plain);
  std::vector<Tensor> one_by_one;
  for (int64_t i = 0; i < 9; ++i)
    one_by_one.push_back(fused_multi_transformer(x.narrow(1, i, 1), layers, single, plain));
  expect_same(cat(one_by_one, 1), expected, 1e-12);
  const Tensor first = fused_multi_transformer(x.narrow(1, 0, 4), layers, pieces, plain);
  expect_same(cat({first, fused_multi_transformer(x.narrow(1, 4, 5), layers, pieces, plain)}, 1), expected, 1e-12);
  for (int64_t layer = 0; layer < 3; ++layer) {
    expect_same(single.layer(layer).k().narrow(1, 0, 9), whole.layer(layer).k().narrow(1, 0, 9), 1e-12);
  }
}

TEST(FusedMultiTransformer, TransposedWeightsGiveTheSame) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f64);
  Layers turned = layers;
  for (MultiTransformerLayer& w : turned) {
    for (Tensor* t : {&w.out_weight, &w.proj, &w.down}) *t = t->t().contiguous();
  }
  const Tensor x = spread({1, 5, width}, 7);
  LayeredKvCache a = some_cache(f64, 1), b = some_cache(f64, 1);
  MultiTransformerOptions o = plain;
  o.transposed_weights = true;
  expect_same(fused_multi_transformer(x, turned, b, o), fused_multi_transformer(x, layers, a, plain), 1e-12);
}

TEST(FusedMultiTransformer, RowsPaddedOnTheLeftEqualEachAlone) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f64);
  Tensor x = spread({3, 5, width}, 8);
  x.select(0, 1).narrow(0, 0, 3).fill_(nan);  // padding, which is not read
  LayeredKvCache cache = some_cache(f64, 3);
  MultiTransformerOptions o = plain;
  o.counts = {5, 2, 4};
  const Tensor y = fused_multi_transformer(x, layers, cache, o);
  EXPECT_EQ(cache.lengths(), o.counts);
  for (int64_t b = 0; b < 3; ++b) {
    const int64_t n = o.counts[static_cast<size_t>(b)];
    expect_same(y.select(0, b).narrow(0, 5 - n, n), by_hand(x.select(0, b).narrow(0, 5 - n, n), layers, counted(n)),
                1e-12);
    expect_values(y.select(0, b).narrow(0, 0, 5 - n), Doubles(static_cast<size_t>((5 - n) * width)), 0);
  }
  // Then each continues at its own position.
  const Tensor next = spread({3, 1, width}, 9);
  const Tensor after = fused_multi_transformer(next, layers, cache, plain);
  const Tensor own = cat({x.select(0, 1).narrow(0, 3, 2), next.select(0, 1)});
  expect_same(after.select(0, 1), by_hand(own, layers, counted(3)).narrow(0, 2, 1), 1e-12);
}

TEST(FusedMultiTransformer, PositionsMayBeAnyOfEachRow) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f64);
  const Tensor x = spread({2, 4, width}, 10);
  MultiTransformerOptions o = plain;
  o.positions = tensor(Counts{40, 41, 45, 46, 0, 0, 7, 8}).reshape({2, 4}).to(i32);
  LayeredKvCache cache = some_cache(f64, 2);
  const Tensor y = fused_multi_transformer(x, layers, cache, o);
  for (int64_t b = 0; b < 2; ++b) {
    expect_same(y.select(0, b), by_hand(x.select(0, b), layers, o.positions.select(0, b).to(i64)), 1e-12);
  }
}

TEST(FusedMultiTransformer, AWindowHidesDistantTokens) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f64, 1);
  const Tensor x = spread({1, 8, width}, 11);
  MultiTransformerOptions o = plain;
  o.window = {2, 0};
  LayeredKvCache cache = some_cache(f64, 1, 16, 1);
  expect_same(fused_multi_transformer(x, layers, cache, o).select(0, 0),
              by_hand(x.select(0, 0), layers, counted(8), false, 2), 1e-12);
}

TEST(FusedMultiTransformer, AnInactiveRowKeepsItsCacheAndIsFinite) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f32);
  const Tensor x = spread({3, 1, width}, 12).to(f32);
  LayeredKvCache cache = some_cache(f32, 3);
  fused_multi_transformer(x, layers, cache, plain);
  const Doubles before = values(cache.layer(1).k().select(0, 1).narrow(0, 0, 1));
  x.select(0, 1).fill_(nan);
  MultiTransformerOptions o = plain;
  o.counts = {1, 0, 1};
  const Tensor y = fused_multi_transformer(x, layers, cache, o);
  EXPECT_EQ(cache.lengths(), (Counts{2, 1, 2}));
  for (const double v : values(y)) EXPECT_TRUE(std::isfinite(v));
  expect_values(cache.layer(1).k().select(0, 1).narrow(0, 0, 1), before, 0);
  o.counts = {0, 0, 0};
  expect_values(fused_multi_transformer(x, layers, cache, o), Doubles(3 * width), 0);
  EXPECT_EQ(cache.lengths(), (Counts{2, 1, 2}));
}

TEST(FusedMultiTransformer, ACacheWithoutRoomIsAnIndexErrorBeforeAnythingIsWritten) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f64);
  LayeredKvCache cache = some_cache(f64, 2, 5);
  for (int64_t i = 0; i < 3; ++i) {
    cache.layer(i).k().fill_(3);
    cache.layer(i).v().fill_(3);
  }
  MultiTransformerOptions o = plain;
  o.counts = {1, 4};
  fused_multi_transformer(spread({2, 4, width}, 13), layers, cache, o);
  std::vector<Doubles> before;
  for (int64_t i = 0; i < 3; ++i) before.push_back(values(cache.layer(i).k()));
  EXPECT_THROW(fused_multi_transformer(spread({2, 2, width}, 14), layers, cache, plain), IndexError);
  EXPECT_EQ(cache.lengths(), (Counts{1, 4}));
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(values(cache.layer(i).k()), before[static_cast<size_t>(i)]) << i;
  EXPECT_NO_THROW(fused_multi_transformer(spread({2, 1, width}, 14), layers, cache, plain));
}

TEST(FusedMultiTransformer, HeadsAndFeaturesInPartsAddUp) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f64, 2);
  const Tensor x = spread({1, 3, width}, 15);
  LayeredKvCache cache = some_cache(f64, 1, 16, 2);
  const Tensor expected = fused_multi_transformer(x, layers, cache, plain);
  // Two processes with half of the heads and of the features, one after the other: the second run of the first adds the
  // results of the second.
  const auto part = [&](int64_t rank) {
    Layers out = layers;
    for (MultiTransformerLayer& w : out) {
      const Tensor q = w.qkv_weight.narrow(0, rank * 12, 12), k = w.qkv_weight.narrow(0, 24 + rank * 6, 6);
      w.qkv_weight = cat({q, k, w.qkv_weight.narrow(0, 36 + rank * 6, 6)});
      w.out_weight = w.out_weight.narrow(0, rank * 12, 12);
      w.proj = cat({w.proj.narrow(1, rank * 5, 5), w.proj.narrow(1, hidden + rank * 5, 5)}, 1);
      w.down = w.down.narrow(0, rank * 5, 5);
    }
    return out;
  };
  // Sums become known one by one: in round n both ranks run up to their n-th sum.
  std::vector<Tensor> sums;
  Tensor y;
  for (size_t round = 0; round <= 4; ++round) {
    std::vector<Tensor> parts;
    for (int64_t rank = 0; rank < 2; ++rank) {
      LayeredKvCache own(2, 1, 16, 1, size, {.dtype = f64});
      size_t call = 0;
      MultiTransformerOptions o{.num_heads = 2, .head_dim = size};
      o.mlp_in_parts = true;
      o.all_reduce = [&](const Tensor& t) {
        if (call == round) parts.push_back(t);
        return call < sums.size() ? sums[call++] : (++call, t);
      };
      y = fused_multi_transformer(x, part(rank), own, o);
      EXPECT_EQ(call, 4U);
    }
    if (round < 4) sums.push_back(parts[0] + parts[1]);
  }
  expect_same(y, expected, 1e-12);
}

TEST(FusedMultiTransformer, AFailureInALaterLayerLeavesTheCacheAsItWas) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f64);
  LayeredKvCache cache = some_cache(f64, 1);
  fused_multi_transformer(spread({1, 2, width}, 16), layers, cache, plain);
  MultiTransformerOptions o = plain;
  int calls = 0;
  o.all_reduce = [&](const Tensor& t) {
    if (++calls == 2) throw std::runtime_error("the network is gone");
    return t;
  };
  EXPECT_THROW(fused_multi_transformer(spread({1, 3, width}, 17), layers, cache, o), std::runtime_error);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(cache.layer(i).lengths(), (Counts{2})) << i;
  o.all_reduce = [](const Tensor& t) { return t.narrow(0, 0, 1); };
  EXPECT_THROW(fused_multi_transformer(spread({1, 3, width}, 17), layers, cache, o), ValueError);
  EXPECT_EQ(cache.lengths(), (Counts{2}));
}

TEST(FusedMultiTransformer, NoTokensAndStridedOperands) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f32);
  LayeredKvCache cache = some_cache(f32, 2), other = some_cache(f32, 2);
  EXPECT_EQ(fused_multi_transformer(zeros({2, 0, width}), layers, cache, plain).shape(), (Dims{2, 0, width}));
  EXPECT_EQ(cache.lengths(), (Counts{0, 0}));
  LayeredKvCache none = some_cache(f32, 0);
  EXPECT_EQ(fused_multi_transformer(zeros({0, 3, width}), layers, none, plain).shape(), (Dims{0, 3, width}));
  const Tensor x = spread({3, 2, width}, 18).to(f32).transpose(0, 1);
  Layers strided = layers;
  for (MultiTransformerLayer& w : strided) w.proj = w.proj.t().contiguous().t();
  expect_same(fused_multi_transformer(x, strided, cache, plain),
              fused_multi_transformer(x.contiguous(), layers, other, plain), 1e-5);
}

TEST(FusedMultiTransformer, RejectsInvalidArgumentsAndLeavesTheCache) {
  const NoGradGuard unrecorded;
  const Layers layers = some_layers(f32);
  LayeredKvCache cache = some_cache(f32, 2);
  const Tensor x = zeros({2, 1, width});
  const auto with = [&](auto change) {
    MultiTransformerOptions o = plain;
    change(o);
    return fused_multi_transformer(x, layers, cache, o);
  };
  EXPECT_THROW(fused_multi_transformer(x.select(1, 0), layers, cache, plain), ShapeError);
  EXPECT_THROW(fused_multi_transformer(x.to(f64), layers, cache, plain), DTypeError);
  EXPECT_THROW(fused_multi_transformer(zeros({2, 1, width}, i64), layers, cache, plain), DTypeError);
  EXPECT_THROW(fused_multi_transformer(zeros({3, 1, width}), layers, cache, plain), ShapeError);
  EXPECT_THROW(fused_multi_transformer(x, std::span(layers).first(2), cache, plain), ValueError);
  EXPECT_THROW(with([](auto& o) { o.num_heads = 3; }), ValueError);
  EXPECT_THROW(with([](auto& o) { o.head_dim = 4; }), ShapeError);
  EXPECT_THROW(with([](auto& o) { o.counts = {1}; }), ValueError);
  EXPECT_THROW(with([](auto& o) { o.counts = {1, 2}; }), ValueError);
  EXPECT_THROW(with([](auto& o) { o.positions = zeros({2, 1}); }), DTypeError);
  EXPECT_THROW(with([](auto& o) { o.positions = zeros({2, 2}, i64); }), ShapeError);
  EXPECT_THROW(with([](auto& o) { o.transposed_weights = true; }), ShapeError);
  Layers wrong = layers;
  wrong[2].down = zeros({hidden, width + 1});
  EXPECT_THROW(fused_multi_transformer(x, wrong, cache, plain), ShapeError);
  wrong[2] = layers[2];
  wrong[2].mlp_ln_weight = Tensor();
  EXPECT_ANY_THROW(fused_multi_transformer(x, wrong, cache, plain));
  EXPECT_EQ(cache.lengths(), (Counts{0, 0}));
  cache.layer(1).append(zeros({2, 1, kv_heads, size}), zeros({2, 1, kv_heads, size}));
  EXPECT_THROW(fused_multi_transformer(x, layers, cache, plain), ValueError);
}

TEST(FusedMultiTransformer, GradientsThatWouldBeLostAreRefused) {
  Layers layers = some_layers(f64);
  LayeredKvCache cache = some_cache(f64, 1);
  EXPECT_THROW(fused_multi_transformer(leaf({1, 2, width}), layers, cache, plain), ValueError);
  layers[1].proj.requires_grad_();
  EXPECT_THROW(fused_multi_transformer(spread({1, 2, width}), layers, cache, plain), ValueError);
  EXPECT_EQ(cache.lengths(), (Counts{0}));
}

}  // namespace
}  // namespace weft::testing
