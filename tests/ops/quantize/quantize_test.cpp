#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <weft/autograd/mode.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/quantize.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "fp8_reference.hpp"
#include "message_of.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

float scale_of(double amax, bool pow2, double eps = 0) {
  const Tensor x = tensor({amax}).to(f32).reshape({1, 1});
  return 1 / quant_blockwise(x, QuantBlock::row_1x128, {.eps = eps, .pow2 = pow2}).scale.to_vector<float>()[0];
}

TEST(QuantBlockwise, ScalesByTheRuleOfTheSpecification) {
  EXPECT_FLOAT_EQ(scale_of(3, false), 149.33333f);
  EXPECT_EQ(scale_of(3, true), 128);
  EXPECT_EQ(scale_of(448, false), 1);
  EXPECT_EQ(scale_of(448, true), 1);
  EXPECT_FLOAT_EQ(scale_of(500, false), .896f);
  EXPECT_EQ(scale_of(500, true), .5);
  EXPECT_EQ(scale_of(7, true), 64);
  EXPECT_EQ(scale_of(7.0001, true), 32);
  EXPECT_EQ(scale_of(0, false), 1);
  EXPECT_EQ(scale_of(0, true), 1);
  EXPECT_EQ(scale_of(1e-39, false), 0x1p126f);
  EXPECT_EQ(scale_of(1e-39, true), 0x1p126f);
  EXPECT_EQ(scale_of(0, true, 7), 64);
  EXPECT_EQ(scale_of(1, true, 7), 64);
  EXPECT_EQ(scale_of(500, true, 7), .5);
}

TEST(QuantBlockwise, CodesFollowTheSpecification) {
  const Tensor x = tensor({{.5, -3., 1., .01}}).to(f32);
  const QuantOut free = quant_blockwise(x, QuantBlock::row_1x128, {.pow2 = false});
  EXPECT_EQ(codes(free.q), (Codes{0x69, 0xfe, 0x71, 0x3c}));
  expect_values(dequant_blockwise(free.q, free.scale, f32).to(f64), {.4821429, -3, .9642857, .010044643}, 1e-6);
  const QuantOut power = quant_blockwise(x);
  EXPECT_EQ(codes(power.q), (Codes{0x68, 0xfc, 0x70, 0x3a}));
  expect_values(dequant_blockwise(power.q, power.scale, f32).to(f64), {.5, -3, 1, .009765625}, 0);
}

TEST(QuantBlockwise, EqualsLoopsForBlocksOfAllKindsAndRaggedSizes) {
  manual_seed(3);
  for (const DType dtype : {f32, bf16, f16}) {
    for (const DType code : {DType::f8_e4m3fn, DType::f8_e5m2}) {
      for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{
               {1, 1}, {3, 127}, {5, 128}, {2, 129}, {129, 257}, {130, 5}, {4, 5000}, {300, 300}}) {
        const Tensor x = (randn({m, n}) * exp(3 * randn({m, 1}))).to(dtype);
        SCOPED_TRACE(fmt::format("{} {} [{}, {}]", name(dtype), name(code), m, n));
        for (const bool pow2 : {true, false}) {
          const QuantOptions options{.pow2 = pow2, .dtype = code};
          const QuantOut rows = quant_blockwise(x, QuantBlock::row_1x128, options);
          expect_quantized(rows.q, rows.scale, quantized_by_loops(x, 1, 128, pow2, code));
          const QuantOut tiles = quant_blockwise(x, QuantBlock::tile_128x128, options);
          expect_quantized(tiles.q, tiles.scale, quantized_by_loops(x, 128, 128, pow2, code));
          EXPECT_EQ(tiles.scale.shape(), (Dims{(m + 127) / 128, (n + 127) / 128}));
          const QuantOut whole = quant_blockwise(x, QuantBlock::tensor, options);
          EXPECT_EQ(whole.scale.dim(), 0);
          expect_quantized(whole.q, whole.scale, quantized_by_loops(x, m, n, pow2, code));
        }
      }
    }
  }
}

TEST(QuantBlockwise, NanStaysNanInfinitiesSaturateAndNeitherCountsInTheScale) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor({{3.f, std::nanf(""), inf, -inf, .5f}});
  const QuantOut out = quant_blockwise(x);
  expect_values(out.scale.to(f64), {1 / 128.}, 0);
  EXPECT_EQ(codes(out.q), (Codes{0x7c, 0x7f, 0x7e, 0xfe, 0x68}));
  const QuantOut wide = quant_blockwise(x, QuantBlock::tensor, {.dtype = DType::f8_e5m2});
  expect_values(dequant_blockwise(wide.q, wide.scale, f32).to(f64), {3, nan, 3.5, -3.5, .5}, 0);
  const QuantOut none = quant_blockwise(tensor({{inf, std::nanf("")}}).to(bf16), QuantBlock::tile_128x128);
  expect_values(none.scale.to(f64), {1}, 0);
  EXPECT_EQ(codes(none.q), (Codes{0x7e, 0x7f}));
}

TEST(QuantBlockwise, QuantisesTheTransposeFromX) {
  manual_seed(4);
  const Tensor x = randn({200, 140}) * exp(2 * randn({200, 1}));
  for (const DType dtype : {f32, bf16}) {
    const Tensor in = x.to(dtype);
    const QuantOut rows = quant_blockwise(in, QuantBlock::row_1x128, {.also_transposed = true});
    expect_quantized(rows.q_transposed, rows.scale_transposed, quantized_by_loops(in.t(), 1, 128, true));
    EXPECT_NE(codes(rows.q_transposed), codes(rows.q.t()));
    const QuantOut tiles = quant_blockwise(in, QuantBlock::tile_128x128, {.also_transposed = true});
    EXPECT_EQ(codes(tiles.q_transposed), codes(tiles.q.t()));
    EXPECT_EQ(values(tiles.scale_transposed), values(tiles.scale.t()));
  }
}

TEST(QuantBlockwise, ScalesCanBeTransposed) {
  const Tensor x = spread({5, 300}).to(f32);
  const QuantOut plain = quant_blockwise(x),
                 turned = quant_blockwise(x, QuantBlock::row_1x128, {.transpose_scale = true});
  EXPECT_EQ(turned.scale.shape(), (Dims{3, 5}));
  EXPECT_TRUE(turned.scale.is_contiguous());
  EXPECT_EQ(values(turned.scale.t()), values(plain.scale));
  EXPECT_EQ(codes(turned.q), codes(plain.q));
}

TEST(QuantBlockwise, TakesStridedReversedExpandedAndUnalignedTensors) {
  manual_seed(5);
  const Tensor big = randn({160, 301}).to(bf16);
  const auto check = [](const Tensor& x) {
    const Tensor dense = x.clone().contiguous();
    for (const auto block : {QuantBlock::row_1x128, QuantBlock::tile_128x128, QuantBlock::tensor}) {
      const QuantOut a = quant_blockwise(x, block), b = quant_blockwise(dense, block);
      EXPECT_EQ(codes(a.q), codes(b.q));
      EXPECT_EQ(values(a.scale), values(b.scale));
    }
  };
  check(big.t());
  check(big.slice(1, 1, 300));
  check(big.slice(1, 0, 301, 2));
  check(big.slice(0, 1, 160, 3).t());
  check(big.slice(0, 3, 4).expand({140, 301}));
  check(big.slice(1, 3, 4).expand({160, 140}));
  check(big.to(f32).slice(1, 1, 300));
  check(big.to(f16).t().slice(0, 1, 140));
  check(big.to(f32).view({-1}).as_strided({60, 1}, {1, 2}));
}

TEST(QuantBlockwise, OfNoElementsHasTheRightShapes) {
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {5, 0}, {0, 0}}) {
    const Tensor x = zeros({m, n}, bf16);
    const QuantOut rows = quant_blockwise(x, QuantBlock::row_1x128, {.also_transposed = true});
    EXPECT_EQ(rows.q.shape(), (Dims{m, n}));
    EXPECT_EQ(rows.scale.shape(), (Dims{m, (n + 127) / 128}));
    EXPECT_EQ(rows.q_transposed.shape(), (Dims{n, m}));
    EXPECT_EQ(rows.scale_transposed.shape(), (Dims{n, (m + 127) / 128}));
    EXPECT_EQ(dequant_blockwise(rows.q, rows.scale).shape(), (Dims{m, n}));
    const QuantOut whole = quant_blockwise(x, QuantBlock::tensor);
    expect_values(whole.scale.to(f64), {1}, 0);
    EXPECT_EQ(dequant_blockwise(whole.q, whole.scale, f32).shape(), (Dims{m, n}));
  }
}

TEST(QuantBlockwise, ComesBackWithinAnEighthOfAnElementsBinadeOrHalfASubnormalStep) {
  manual_seed(6);
  const Tensor x = randn({64, 512}) * exp(4 * randn({64, 512}));
  for (const auto block : {QuantBlock::row_1x128, QuantBlock::tile_128x128, QuantBlock::tensor}) {
    for (const bool pow2 : {true, false}) {
      const QuantOut out = quant_blockwise(x, block, {.pow2 = pow2});
      const Tensor back = dequant_blockwise(out.q, out.scale, f32);
      const Tensor step = dequant_blockwise(ones_like(x).mul_(0x1p-9).to(DType::f8_e4m3fn), out.scale, f32);
      const Tensor bound = maximum(abs(x) * 0x1p-4, step * 0.5) * (1 + 1e-6);
      EXPECT_TRUE(all(abs(back - x) <= bound).item<bool>());
    }
  }
}

TEST(QuantBlockwise, RejectsInvalidOperands) {
  const Tensor x = zeros({2, 3}, f32);
  EXPECT_THROW(quant_blockwise(zeros({3}, f32)), ShapeError);
  EXPECT_THROW(quant_blockwise(zeros({2, 3}, f64)), DTypeError);
  EXPECT_THROW(quant_blockwise(zeros({2, 3}, i32)), DTypeError);
  EXPECT_THROW(quant_blockwise(x, QuantBlock::tensor, {.dtype = bf16}), DTypeError);
  EXPECT_THROW(quant_blockwise(x, QuantBlock::tensor, {.eps = -1}), ValueError);
  EXPECT_THROW(quant_blockwise(x, QuantBlock::tensor, {.eps = nan}), ValueError);
  EXPECT_THROW(quant_blockwise(x, QuantBlock::tensor, {.eps = 1e308}), ValueError);
  EXPECT_THROW(quant_blockwise(Tensor()), Error);
}

TEST(QuantBlockwise, OfAnExpandedTensorThatNoMemoryHoldsRaisesOutOfMemory) {
  EXPECT_THROW(quant_blockwise(zeros({1, 1}, bf16).expand({int64_t{1} << 40, int64_t{1} << 20})), Error);
}

TEST(DequantBlockwise, MultipliesEveryCodeByItsScaleInEveryDtype) {
  std::vector<float> numbers;
  for (int i = 0; i < 256; ++i) numbers.push_back(to_float(float8_e4m3fn{static_cast<uint8_t>(i)}));
  const Tensor q = tensor(std::span<const float>(numbers), {2, 128}, f32).to(DType::f8_e4m3fn);
  const Tensor scale = tensor({{.5f}, {3.f}});
  for (const DType dtype : {f32, f64, bf16, f16}) {
    const Tensor expected = (q.to(f32) * scale).to(dtype);
    expect_near(values(dequant_blockwise(q, scale, dtype)), values(expected), 0);
    expect_near(values(dequant_blockwise(q.t().contiguous().t(), scale, dtype)), values(expected), 0);
  }
  std::vector<float> wide;
  for (int i = 0; i < 256; ++i) wide.push_back(to_float(float8_e5m2{static_cast<uint8_t>(i)}));
  const Tensor e5m2 = tensor(std::span<const float>(wide), {2, 128}, f32).to(DType::f8_e5m2);
  expect_near(values(dequant_blockwise(e5m2, scale, f32)), values(e5m2.to(f32) * scale), 0);
}

TEST(DequantBlockwise, RefusesScalesThatFitNoBlock) {
  const Tensor q = zeros({3, 130}, f32).to(DType::f8_e4m3fn);
  EXPECT_THROW(dequant_blockwise(q, zeros({3, 3}, f32)), ShapeError);
  EXPECT_THROW(dequant_blockwise(q, zeros({2, 2}, f32)), ShapeError);
  EXPECT_THROW(dequant_blockwise(q, zeros({3, 2}, bf16)), DTypeError);
  EXPECT_THROW(dequant_blockwise(q.to(f32), zeros({3, 2}, f32)), DTypeError);
  EXPECT_THROW(dequant_blockwise(q, zeros({3, 2}, f32), i32), DTypeError);
}

}  // namespace
}  // namespace weft::testing
