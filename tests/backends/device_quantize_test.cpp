// Floats of 8 bits in blocks on every kind of device: the CPU's codes and scales, bit for bit, and its numbers.
#include "device_checks.hpp"

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/quantize.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

using namespace test;

constexpr DType code_types[] = {f8_e4m3fn, f8_e5m2};

void expect_bits(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape().text(), expected.shape().text());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  const Tensor a = actual.to(Device()).contiguous(), e = expected.contiguous();
  const auto *came = static_cast<const unsigned char*>(a.data_ptr()),
             *right = static_cast<const unsigned char*>(e.data_ptr());
  for (int64_t i = 0; i < e.nbytes(); ++i) {
    ASSERT_EQ(int{came[i]}, int{right[i]}) << "byte " << i << " of " << name(e.dtype());
  }
}
/// Values of all magnitudes, with NaN and infinities.
Tensor wide_range(const Dims& shape, DType t) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor special = tensor(std::vector<double>{0, -0.0, infinity, -infinity, nan, 1e-40, -1e-40, 3e4});
  const Tensor x = randn(shape) * exp(6 * randn({shape[0], 1})),
               picked = index_select(special, 0, randint(0, 8, {x.numel()}));
  return where(rand(shape) < 0.02, picked.reshape(shape), x).to(t);
}

void expect_quantized(Device on, const Tensor& x, const QuantOptions& options) {
  for (const QuantBlock block : {QuantBlock::row_1x128, QuantBlock::tile_128x128, QuantBlock::tensor}) {
    const QuantOut right = quant_blockwise(x, block, options), came = quant_blockwise(x.to(on), block, options);
    expect_bits(came.q, right.q);
    expect_bits(came.scale, right.scale);
    expect_bits(came.q_transposed, right.q_transposed);
    for (const DType t : {f16, bf16, f32}) {
      if (options.transpose_scale && block != QuantBlock::tensor) continue;  // then the scale is no operand of this
      expect_equal(dequant_blockwise(came.q, came.scale, t), dequant_blockwise(right.q, right.scale, t));
    }
  }
}

DEVICE_TEST(QuantizesBlocksOfAllKindsAndRaggedSizes) {
  for (const DType t : {f16, bf16, f32}) {
    for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {3, 127}, {5, 128}, {2, 129}, {129, 257}, {130, 5}, {4, 5000}, {300, 300}}) {
      SCOPED_TRACE(std::string(name(t)) + " " + std::to_string(m) + " x " + std::to_string(n));
      const Tensor x = wide_range({m, n}, t);
      for (const DType code : code_types) {
        expect_quantized(on, x, {.pow2 = true, .dtype = code});
        expect_quantized(on, x, {.eps = 0.5, .pow2 = false, .transpose_scale = true, .dtype = code});
      }
    }
  }
}

DEVICE_TEST(QuantizesAnyLayoutAndEmptyTensors) {
  const Tensor x = wide_range({140, 150}, f32), there = x.to(on);
  const QuantOptions both{.also_transposed = true};
  expect_quantized(on, x, both);
  for (const auto& view : {+[](const Tensor& t) { return t.t(); }, +[](const Tensor& t) { return t.flip({1}); },
                           +[](const Tensor& t) { return t.slice(1, 3, 140, 2); },
                           +[](const Tensor& t) {
                             return t.select(0, 1).unsqueeze(0).expand({5, 150});
                           }}) {
    const QuantOut right = quant_blockwise(view(x)), came = quant_blockwise(view(there));
    expect_bits(came.q, right.q);
    expect_bits(came.scale, right.scale);
  }
  for (const Tensor& none : {zeros({3, 200}), full({3, 200}, std::numeric_limits<double>::quiet_NaN())}) {
    expect_quantized(on, none, {});
  }
  expect_quantized(on, zeros({0, 5}), {});
}

/// Codes that are quantised anew have the scales of other blocks, and are rounded to bfloat16 between.
DEVICE_TEST(QuantizesCodesInOtherBlocks) {
  const QuantOut source = quant_blockwise(wide_range({150, 300}, f32));
  for (const DType code : code_types) {
    const auto again = [&](Device d) {
      const Tensor q = source.q.to(d), scale = source.scale.to(d);
      const Tensor out = empty({150, 300}, {code, d}), out_scale = empty({2, 300}, {f32, d});
      kernels(out.raw_view())
          .quantize_blocks(out.raw_view(), out_scale.raw_view(), q.raw_view(), scale.raw_view(), 128, 1, 1, 128, 0,
                           true);
      return std::pair(out, out_scale);
    };
    const auto [codes, scales] = again(on);
    const auto [right_codes, right_scales] = again({});
    expect_bits(codes, right_codes);
    expect_bits(scales, right_scales);
  }
}

/// A code may differ from the CPU's by one if its input was rounded the other way.
void expect_close_codes(const Quantized& came, const Quantized& right) {
  expect_near(came.scale, right.scale, 1e-2);
  const Tensor a = dequant_blockwise(came.q, came.scale, f32).to(Device()),
               e = dequant_blockwise(right.q, right.scale, f32);
  const Tensor bound = maximum(abs(e) * 0.126, dequant_blockwise(ones_like(right.q), right.scale, f32) * 0x1p-8);
  EXPECT_TRUE(all(abs(a - e) <= bound).item<bool>());
  EXPECT_LE((a != e).to(f32).sum().item<double>(), 0.02 * static_cast<double>(a.numel()));
}

DEVICE_TEST(WeightsGatedUnitsAsTheCpuDoes) {
  for (const auto& [m, n] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 127}, {5, 128}, {40, 300}, {2, 5000}, {0, 4}, {3, 0}}) {
    for (const DType t : {f32, bf16, f16}) {
      SCOPED_TRACE(fmt::format("{} [{}, {}]", name(t), m, n));
      const Tensor x = (randn({m, 2 * n}) * 3).to(t), g = randn({m, n}).to(t), prob = rand({m}) + 0.1;
      for (const bool power_of_two : {false, true}) {
        expect_close_codes(fused_weighted_swiglu_act_quant(x.to(on), prob.to(on), power_of_two),
                           fused_weighted_swiglu_act_quant(x, prob, power_of_two));
        expect_close_codes(fused_weighted_swiglu_act_quant(x.to(on), {}, power_of_two),
                           fused_weighted_swiglu_act_quant(x, {}, power_of_two));
      }
      const WeightedSwigluBackward came = fused_swiglu_weighted_bwd(x.to(on), g.to(on), prob.to(on)),
                                   right = fused_swiglu_weighted_bwd(x, g, prob);
      const double tolerance = t == f32 ? 2e-5 : tolerance_of(t);
      expect_near(came.do1, right.do1, tolerance, tolerance);
      expect_near(came.o2, right.o2, tolerance, tolerance);
      expect_near(came.dprob, right.dprob, 2e-5, 1e-3);
    }
  }
  const Tensor row = randn({6, 1}), wide = row.expand({6, 40}), strided = randn({80, 12}).t().slice(0, 0, 12, 2);
  const Tensor prob = rand({12}).slice(0, 0, 12, 2);
  for (const Tensor& x : {wide, strided}) {
    expect_close_codes(fused_weighted_swiglu_act_quant(x.to(on), prob.to(on)),
                       fused_weighted_swiglu_act_quant(x, prob));
  }
  const Tensor there = row.to(on).expand({6, 40});
  expect_close_codes(fused_weighted_swiglu_act_quant(there, prob.to(on)), fused_weighted_swiglu_act_quant(wide, prob));
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor special = tensor({{-infinity, infinity, nan, 1e30, -1e30, 0.0, 1.0, 2.0, 1.0, infinity, -1e30, nan}});
  const Tensor one = ones({1}), g = ones({1, 6});
  const WeightedSwigluBackward came = fused_swiglu_weighted_bwd(special.to(on), g.to(on), one.to(on)),
                               right = fused_swiglu_weighted_bwd(special, g, one);
  expect_near(came.do1, right.do1);
  expect_near(came.o2, right.o2);
  expect_near(came.dprob, right.dprob);
}

/// Within the rounding error of the products and of the sum to `dtype`.
void expect_product(const Tensor& came, const Tensor& a, const Tensor& b, const Tensor& start) {
  const DType dtype = came.dtype();
  const Tensor expected = matmul(a, b.t()) + start, y = came.to(Device()).to(f64);
  const bool wide = dtype == f32, half = dtype == f16;
  const double each = wide ? 1e-5 : half ? 1e-4 : 0x1p-8 + 1e-5, once = wide ? 0 : half ? 0x1p-11 : 0x1p-8;
  const Tensor bound = matmul(abs(a), abs(b).t()) * each + abs(expected) * once + 1e-6;
  ASSERT_EQ(y.shape().text(), expected.shape().text());
  ASSERT_TRUE(all(abs(y - expected) <= bound).item<bool>());
}

DEVICE_TEST(ProductsWithIntegersEqualThoseWithDecodedWeights) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 5, 1},
                                                                   {1, 130, 256},
                                                                   {3, 34, 97},
                                                                   {4, 7, 514},
                                                                   {5, 129, 64},
                                                                   {8, 3, 33},
                                                                   {9, 40, 40},
                                                                   {33, 65, 130},
                                                                   {70, 34, 96}}) {
    const Tensor w = randn({n, k}), x = randn({m, k}), b = randn({n});
    for (const int64_t bits : {8, 4}) {
      for (const int64_t group : {0, 2, 32}) {
        for (const bool symmetric : {true, false}) {
          const QuantizedWeight q = quantize_weight(w, {bits, group, symmetric});
          const Tensor codes = q.codes.to(on), scale = q.scale.to(on);
          const Tensor stands_for = dequantize_weight(q.codes, q.scale, k, {q.zero, {}, bits, group}, f64);
          for (const DType t : {f32, bf16, f16}) {
            SCOPED_TRACE(fmt::format("{} [{}, {}, {}] {} bits in {}", name(t), m, n, k, bits, group));
            const Tensor in = x.to(t), bias = b.to(t);
            expect_product(quantized_linear(in.to(on), codes, scale, {q.zero.to(on), bias.to(on), bits, group}),
                           in.to(f64), stands_for, bias.to(f64));
          }
          expect_product(quantized_linear(x.to(on), codes, scale, {q.zero.to(on), {}, bits, group}), x.to(f64),
                         stands_for, zeros({n}, f64));
        }
      }
    }
  }
}

/// Nothing that a product leaves out is multiplied: not a NaN beside the operands, nor memory before a view's first
/// row.
DEVICE_TEST(ProductsWithIntegersReadNoMoreThanTheirOperands) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t bits : {8, 4}) {
    for (const int64_t m : {1, 6, 20}) {
      const QuantizedWeight q = quantize_weight(randn({9, 66}), {bits, 2, false});
      const Tensor x = randn({m, 66});
      const Tensor all_x = full({m + 2, 80}, nan), all_codes = full({11, q.codes.size(1) + 3}, 255, q.codes.dtype());
      all_x.slice(0, 1, m + 1).slice(1, 7, 73).copy_(x);
      all_codes.slice(0, 1, 10).narrow(1, 3, q.codes.size(1)).copy_(q.codes);
      const Tensor there = all_x.to(on), codes = all_codes.to(on);
      const QuantizedLinearOptions options{q.zero.to(on), {}, bits, 2};
      expect_equal(quantized_linear(there.slice(0, 1, m + 1).slice(1, 7, 73),
                                    codes.slice(0, 1, 10).narrow(1, 3, q.codes.size(1)), q.scale.to(on), options),
                   quantized_linear(x.to(on), q.codes.to(on), q.scale.to(on), options).to(Device()));
    }
  }
  const QuantizedWeight none = quantize_weight(zeros({3, 0}), {8, 0, true});
  expect_equal(quantized_linear(zeros({2, 0}, on), none.codes.to(on), none.scale.to(on), {{}, ones({3}, on), 8, 0}),
               ones({2, 3}));
}

DEVICE_TEST(ProductsOf8BitFloatsEqualThoseOfDecodedOnes) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {1, 3, 128}, {2, 130, 512}, {3, 6, 130}, {9, 40, 257}, {33, 65, 384}, {130, 33, 129}}) {
    for (const DType code : code_types) {
      const QuantOut a = quant_blockwise(randn({m, k}), QuantBlock::row_1x128, {.dtype = code});
      const QuantOut b = quant_blockwise(randn({n, k}), QuantBlock::tile_128x128, {.dtype = code});
      const Tensor left = dequant_blockwise(a.q, a.scale, f32).to(f64),
                   right = dequant_blockwise(b.q, b.scale, f32).to(f64);
      for (const DType t : {f32, bf16, f16}) {
        SCOPED_TRACE(fmt::format("{} [{}, {}, {}]", name(t), m, n, k));
        const auto product = [&](const BlockwiseGemmOptions& options) {
          return gemm_fp8_blockwise(a.q.to(on), a.scale.to(on), b.q.to(on), b.scale.to(on), t, options);
        };
        expect_product(product({}), left, right, zeros({1}, f64));
        if (t == f16) continue;
        const Tensor start = randn({m, n}).to(t), out = start.to(on).t().contiguous().t();
        product({.out = out, .accumulate = true});
        expect_product(out, left, right, start.to(f64));
      }
    }
  }
}

}  // namespace
}  // namespace weft
