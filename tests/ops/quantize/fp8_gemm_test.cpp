#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <weft/ops/create.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/quantize.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "fp8_reference.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

QuantOut operand(int64_t m, int64_t k, QuantBlock block, DType code = DType::f8_e4m3fn) {
  return quant_blockwise(randn({m, k}) * exp(2 * randn({m, 1})), block, {.pow2 = false, .dtype = code});
}

/// In double, from decoded codes and scales.
Tensor reference(const QuantOut& a, const QuantOut& b) {
  return matmul(dequant_blockwise(a.q, a.scale, f64), dequant_blockwise(b.q, b.scale, f64).t());
}
/// The reference for f32 rounding: sums of magnitudes.
Tensor sizes(const QuantOut& a, const QuantOut& b) {
  return matmul(abs(dequant_blockwise(a.q, a.scale, f64)), abs(dequant_blockwise(b.q, b.scale, f64)).t());
}

void expect_product(const Tensor& actual, const Tensor& expected, const Tensor& sums) {
  EXPECT_EQ(actual.shape(), expected.shape());
  const double relative = actual.dtype() == f32 ? 0 : 1e-2;
  const Tensor bound = abs(expected) * relative + sums * 1e-5;
  EXPECT_TRUE(all(abs(actual.to(f64) - expected) <= bound).item<bool>());
}

TEST(GemmFp8Blockwise, EqualsTheDequantisedProductForAllBlocksAndRaggedSizes) {
  manual_seed(1);
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {3, 5, 7}, {2, 33, 128}, {13, 64, 129}, {130, 131, 300}, {400, 17, 1024}, {100, 530, 77}}) {
    for (const auto a_block : {QuantBlock::row_1x128, QuantBlock::tile_128x128}) {
      for (const auto b_block : {QuantBlock::row_1x128, QuantBlock::tile_128x128}) {
        const QuantOut a = operand(m, k, a_block), b = operand(n, k, b_block);
        const Tensor expected = reference(a, b), sums = sizes(a, b);
        for (const DType dtype : {f32, bf16}) {
          SCOPED_TRACE(fmt::format("[{}, {}, {}] {}", m, n, k, name(dtype)));
          const BlockwiseGemmOptions options{.a_block = a_block, .b_block = b_block};
          expect_product(gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, dtype, options), expected, sums);
        }
      }
    }
  }
}

TEST(GemmFp8Blockwise, IsExactWhereF32Is) {
  // Codes of small whole numbers, scales of powers of two.
  manual_seed(2);
  const Tensor x = randint(-8, 9, {37, 640}).to(f32), y = randint(-8, 9, {70, 640}).to(f32);
  const QuantOut a = quant_blockwise(x), b = quant_blockwise(y, QuantBlock::tile_128x128);
  EXPECT_EQ(values(gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, f32)), values(matmul(x, y.t())));
}

TEST(GemmFp8Blockwise, TakesBothCodesAndStridedOperands) {
  manual_seed(3);
  const QuantOut a = operand(40, 260, QuantBlock::row_1x128, DType::f8_e5m2),
                 b = operand(50, 260, QuantBlock::tile_128x128);
  const Tensor plain = gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, f32);
  expect_product(plain, reference(a, b), sizes(a, b));
  const auto turned = [](const Tensor& t) { return t.t().contiguous().t(); };
  EXPECT_EQ(values(gemm_fp8_blockwise(turned(a.q), turned(a.scale), turned(b.q), turned(b.scale), f32)), values(plain));
}

TEST(GemmFp8Blockwise, WritesAndAddsIntoTheGivenTensor) {
  manual_seed(4);
  const QuantOut a = operand(20, 256, QuantBlock::row_1x128), b = operand(30, 256, QuantBlock::tile_128x128);
  for (const DType dtype : {f32, bf16}) {
    const Tensor product = gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, f32), start = randn({20, 30}).to(dtype);
    const Tensor out = start.clone();
    const Tensor added = gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, dtype, {.out = out, .accumulate = true});
    EXPECT_TRUE(added.shares_storage(out));
    expect_product(out, start.to(f64) + reference(a, b), sizes(a, b) + abs(start.to(f64)));
    gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, dtype, {.out = out});
    EXPECT_EQ(values(out), values(product.to(dtype)));
    const Tensor wide = zeros({30, 20}, dtype);
    gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, dtype, {.out = wide.t()});
    EXPECT_EQ(values(wide.t()), values(product.to(dtype)));
  }
}

TEST(GemmFp8Blockwise, AnEmptyProductIsZeroOrLeavesTheSum) {
  const QuantOut a = quant_blockwise(zeros({3, 0}, f32)),
                 b = quant_blockwise(zeros({2, 0}, f32), QuantBlock::tile_128x128);
  expect_values(gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, f32).to(f64), {0, 0, 0, 0, 0, 0}, 0);
  const Tensor out = full({3, 2}, 7, f32);
  gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, f32, {.out = out, .accumulate = true});
  expect_values(out.to(f64), {7, 7, 7, 7, 7, 7}, 0);
  const QuantOut none = quant_blockwise(zeros({0, 5}, f32)),
                 some = quant_blockwise(zeros({2, 5}, f32), QuantBlock::tile_128x128);
  EXPECT_EQ(gemm_fp8_blockwise(none.q, none.scale, some.q, some.scale).shape(), (Dims{0, 2}));
}

TEST(GemmFp8Blockwise, KeepsZeroTimesAHugeScaleZero) {
  const Tensor q = zeros({1, 1}, f32).to(DType::f8_e4m3fn), large = full({1, 1}, 0x1p120f, f32);
  expect_values(gemm_fp8_blockwise(q, large, q, large, f32).to(f64), {0}, 0);
}

TEST(GemmFp8Blockwise, PassesNanOnInItsRowAndColumnAlone) {
  Tensor x = ones({2, 200}, f32);
  x[0][5] = std::nanf("");
  const QuantOut a = quant_blockwise(x), b = quant_blockwise(ones({1, 200}, f32), QuantBlock::tile_128x128);
  expect_values(gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, f32).to(f64), {nan, 200}, 0);
}

TEST(GemmFp8Blockwise, RejectsInvalidOperands) {
  const QuantOut a = operand(3, 130, QuantBlock::row_1x128), b = operand(5, 130, QuantBlock::tile_128x128);
  EXPECT_THROW(gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, bf16, {.bias = zeros({5}, bf16)}), NotImplementedError);
  EXPECT_THROW(gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, f64), DTypeError);
  EXPECT_THROW(gemm_fp8_blockwise(a.q, a.scale, b.q.narrow(1, 0, 100), b.scale.narrow(1, 0, 1)), ShapeError);
  EXPECT_THROW(gemm_fp8_blockwise(a.q, b.scale, b.q, b.scale), ShapeError);
  EXPECT_THROW(gemm_fp8_blockwise(a.q.to(f32), a.scale, b.q, b.scale), DTypeError);
  EXPECT_THROW(gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, bf16, {.accumulate = true}), ValueError);
  EXPECT_THROW(gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, f16, {.out = zeros({3, 5}, f16), .accumulate = true}),
               ValueError);
  EXPECT_THROW(gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, bf16, {.out = zeros({3, 4}, bf16)}), ShapeError);
  EXPECT_THROW(gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, bf16, {.a_block = QuantBlock::tensor}), ValueError);
}

}  // namespace
}  // namespace weft::testing
