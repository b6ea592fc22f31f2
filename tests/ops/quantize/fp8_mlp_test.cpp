// The MLP of 8-bit floats against the MLP of its decoded numbers, in double.
#include <cmath>
#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

#include <weft/ops/create.hpp>
#include <weft/ops/fused.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/quantize.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

/// weight [in, out] with a scale for each output, or for all.
Quantized coded(const Tensor& weight, bool each = true, double most = 448) {
  const Tensor scale = (each ? abs(weight).amax({0}) : abs(weight).amax()) / most;
  return {(weight / scale).to(DType::f8_e4m3fn), scale};
}
Tensor decoded(const Quantized& w) { return w.q.to(f64) * w.scale.to(f64); }

double cosine(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(f64), y = b.to(f64);
  return (sum(x * y) / sqrt(sum(x * x) * sum(y * y))).item<double>();
}

struct Weights {
  Tensor gate, up, down;
};
Weights some_weights(int64_t h, int64_t f, int64_t out) {
  manual_seed(3);
  return {randn({h, f}) / 8, randn({h, f}) / 8, randn({f, out}) / 8};
}

TEST(FusedFp8Mlp, IsCloseToTheMlpOfDequantisedWeights) {
  for (const DType dtype : {f32, bf16, f16}) {
    for (const double most : {448.0, 240.0}) {
      for (const bool each : {true, false}) {
        const Weights w = some_weights(200, 300, 130);
        const Quantized gate = coded(w.gate, each), up = coded(w.up, each), down = coded(w.down, each);
        const Tensor x = (randn({2, 9, 200}) * exp(randn({2, 9, 1}))).to(dtype);
        const Tensor y = fused_fp8_mlp(x, gate, up, down, {.fp8_max = most});
        const Tensor expected = fused_mlp(x.to(f64), decoded(gate), decoded(up), decoded(down));
        EXPECT_EQ(y.dtype(), dtype);
        ASSERT_EQ(y.shape(), (Dims{2, 9, 130}));
        EXPECT_GE(cosine(y, expected), 0.998);
        // Each row by itself, too: rows are quantised by their own largest number.
        for (int64_t i = 0; i < 9; ++i) EXPECT_GE(cosine(y.select(1, i), expected.select(1, i)), 0.99) << i;
      }
    }
  }
}

TEST(FusedFp8Mlp, ValuesOfEightBitsAreExact) {
  // The case of fused_mlp's specification with a silu; only its rounding differs.
  const Tensor one = ones({}), eye2 = eye(2).to(DType::f8_e4m3fn);
  const Quantized gate{eye2, one}, up{tensor({1.0F, 1.0F, 1.0F, -1.0F}).reshape({2, 2}).to(DType::f8_e4m3fn), one};
  const Quantized down{tensor({1.0F, 2.0F}).reshape({2, 1}).to(DType::f8_e4m3fn), one};
  const Tensor x = tensor({1.0F, 2.0F}).reshape({1, 2});
  expect_values(fused_fp8_mlp(x, gate, up, down, {.x_scale = one}), {-1.3300126}, 0.06);
  // Gates of 64 let everything through.
  const Quantized open{full({2, 2}, 64.0).to(DType::f8_e4m3fn), one};
  const Tensor y = fused_fp8_mlp(x, open, up, down, {.x_scale = one, .hidden_scale = full({}, 64.0, f32)});
  expect_values(y, {3 * 192 - 2 * 192}, 0);
}

TEST(FusedFp8Mlp, LayoutsOfWeightsGiveTheSameBits) {
  const Weights w = some_weights(40, 50, 30);
  const Quantized gate = coded(w.gate), up = coded(w.up), down = coded(w.down);
  const Tensor x = randn({7, 40});
  const auto turned = [](const Quantized& q) { return Quantized{q.q.t().contiguous(), q.scale}; };
  const Quantized both{cat({gate.q.to(f32), up.q.to(f32)}, 1).to(DType::f8_e4m3fn), cat({gate.scale, up.scale})};
  const Doubles expected = values(fused_fp8_mlp(x, gate, up, down));
  expect_values(fused_fp8_mlp(x, both, {}, down), expected, 0);
  expect_values(fused_fp8_mlp(x, turned(both), {}, turned(down), {.transposed_weights = true}), expected, 0);
  expect_values(fused_fp8_mlp(x, turned(gate), turned(up), turned(down), {.transposed_weights = true}), expected, 0);
  expect_values(fused_fp8_mlp(x.t().contiguous().t(), gate, up, down), expected, 0);
  expect_values(fused_fp8_mlp(x.narrow(0, 3, 1), gate, up, down),
                values(fused_fp8_mlp(x, gate, up, down).narrow(0, 3, 1)), 0);
}

TEST(FusedFp8Mlp, AGivenScaleCutsOffAtTheLargestCode) {
  const Quantized w{full({1, 1}, 1.0).to(DType::f8_e4m3fn), ones({})},
      gate{full({1, 1}, 8.0).to(DType::f8_e4m3fn), ones({})};
  const auto run = [&](float x, double most) {
    return fused_fp8_mlp(full({1, 1}, x), gate, w, w,
                         {.x_scale = ones({}), .hidden_scale = full({}, 4096.0, f32), .fp8_max = most})
        .item<double>();
  };
  EXPECT_EQ(run(1000, 448), run(448, 448));
  EXPECT_EQ(run(1000, 240), run(240, 240));
  EXPECT_NE(run(448, 448), run(448, 240));
}

TEST(FusedFp8Mlp, ZerosNoRowsAndNumbersThatAreNone) {
  const Weights w = some_weights(6, 4, 3);
  const Quantized gate = coded(w.gate), up = coded(w.up), down = coded(w.down);
  EXPECT_EQ(fused_fp8_mlp(zeros({0, 6}), gate, up, down).shape(), (Dims{0, 3}));
  EXPECT_EQ(fused_fp8_mlp(zeros({6}), gate, up, down).shape(), (Dims(3)));
  expect_values(fused_fp8_mlp(zeros({2, 6}), gate, up, down), Doubles(6), 0);
  const Quantized none{zeros({0, 4}).to(DType::f8_e4m3fn), ones({})};
  expect_values(fused_fp8_mlp(zeros({2, 0}), none, none, down), Doubles(6), 0);
  Tensor x = randn({3, 6});
  x.select(0, 1).select(0, 2).fill_(nan);
  x.select(0, 2).select(0, 0).fill_(infinity);
  const Doubles y = values(fused_fp8_mlp(x, gate, up, down));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::isfinite(y[i]));
    EXPECT_TRUE(std::isnan(y[3 + i]));
    EXPECT_TRUE(std::isfinite(y[6 + i]));  // an infinity is the largest code
  }
  const Tensor tiny = full({1, 6}, 1e-44);
  for (const double v : values(fused_fp8_mlp(tiny, gate, up, down))) EXPECT_TRUE(std::isfinite(v));
}

TEST(FusedFp8Mlp, RejectsInvalidArguments) {
  const Weights w = some_weights(6, 4, 3);
  const Quantized gate = coded(w.gate), up = coded(w.up), down = coded(w.down);
  const Tensor x = zeros({2, 6});
  EXPECT_THROW(fused_fp8_mlp(x.to(f64), gate, up, down), DTypeError);
  EXPECT_THROW(fused_fp8_mlp(x, {w.gate, gate.scale}, up, down), DTypeError);
  EXPECT_THROW(fused_fp8_mlp(x, {gate.q, gate.scale.to(f64)}, up, down), DTypeError);
  EXPECT_THROW(fused_fp8_mlp(x, {gate.q, ones({3})}, up, down), ShapeError);
  EXPECT_THROW(fused_fp8_mlp(zeros({}), gate, up, down), ShapeError);
  EXPECT_THROW(fused_fp8_mlp(zeros({2, 5}), gate, up, down), ShapeError);
  EXPECT_THROW(fused_fp8_mlp(x, gate, {}, down), ShapeError);
  EXPECT_THROW(fused_fp8_mlp(x, coded(randn({6, 5})), {}, down), ShapeError);
  EXPECT_THROW(fused_fp8_mlp(x, gate, coded(randn({6, 5})), down), ShapeError);
  EXPECT_THROW(fused_fp8_mlp(x, gate, up, down, {.transposed_weights = true}), ShapeError);
  EXPECT_THROW(fused_fp8_mlp(x, gate, up, down, {.x_scale = ones({2})}), ShapeError);
  for (const double most : {0.0, -1.0, 449.0, nan}) {
    EXPECT_THROW(fused_fp8_mlp(x, gate, up, down, {.fp8_max = most}), ValueError) << most;
  }
}

}  // namespace
}  // namespace weft::testing
