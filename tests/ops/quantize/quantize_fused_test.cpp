#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <weft/ops/create.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/quantize.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "fp8_reference.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

using Sizes = std::vector<int64_t>;

void expect_same(const Tensor& q, const Tensor& scale, const QuantOut& expected) {
  EXPECT_EQ(q.shape(), expected.q.shape());
  EXPECT_EQ(codes(q), codes(expected.q));
  EXPECT_EQ(scale.shape(), expected.scale.shape());
  EXPECT_EQ(values(scale), values(expected.scale));
}

Tensor numbers(int64_t m, int64_t n, uint64_t seed = 1) {
  manual_seed(seed);
  return (randn({m, n}) * exp(2 * randn({m, 1}))).to(bf16);
}

TEST(FusedActDequant, EqualsDequantBlockwise) {
  const QuantOut q = quant_blockwise(numbers(7, 300));
  EXPECT_EQ(fused_act_dequant(q.q, q.scale).dtype(), bf16);
  EXPECT_EQ(values(fused_act_dequant(q.q, q.scale)), values(dequant_blockwise(q.q, q.scale, bf16)));
  EXPECT_THROW(fused_act_dequant(q.q, q.scale.narrow(1, 0, 2)), ShapeError);
}

TEST(FusedTransposeSplitQuant, CodesFollowTheSpecification) {
  const Tensor x = arange(1, 129, 1, f32).reshape({128, 1}).to(bf16);
  const QuantizedSplits free = fused_transpose_split_quant(x, {}, Sizes{128}, false);
  const Codes q = codes(free.out[0]);
  EXPECT_EQ((Codes{q[0], q[1], q[2], q[127]}), (Codes{0x46, 0x4e, 0x52, 0x7e}));
  EXPECT_FLOAT_EQ(free.scale[0].to_vector<float>()[0], .2857143f);
  const QuantizedSplits power = fused_transpose_split_quant(x, {}, Sizes{128});
  const Codes p = codes(power.out[0]);
  EXPECT_EQ((Codes{p[0], p[1], p[2], p[127]}), (Codes{0x40, 0x48, 0x4c, 0x78}));
  EXPECT_EQ(power.scale[0].to_vector<float>()[0], .5f);
}

TEST(FusedTransposeSplitQuant, EqualsQuantisingEachTranspose) {
  for (const int64_t k : {127, 1, 233, 2162}) {
    const Tensor x = numbers(384, k);
    const QuantOut coded = quant_blockwise(x);
    for (const bool pow2 : {true, false}) {
      const Sizes tokens{0, 128, 0, 256};
      const QuantizedSplits of_bf16 = fused_transpose_split_quant(x, {}, tokens, pow2);
      const QuantizedSplits of_codes = fused_transpose_split_quant(coded.q, coded.scale, tokens, pow2);
      const Tensor back = fused_act_dequant(coded.q, coded.scale);
      ASSERT_EQ(of_bf16.out.size(), 4u);
      int64_t begin = 0;
      for (size_t i = 0; i < 4; ++i) {
        const int64_t t = tokens[i];
        EXPECT_EQ(of_bf16.out[i].shape(), (Dims{k, t}));
        EXPECT_EQ(of_bf16.scale[i].shape(), (Dims{t / 128, k}));
        const QuantOptions options{.pow2 = pow2, .transpose_scale = true};
        const auto expected = [&](const Tensor& rows) {
          return quant_blockwise(rows.narrow(0, begin, t).t().contiguous(), QuantBlock::row_1x128, options);
        };
        expect_same(of_bf16.out[i], of_bf16.scale[i], expected(x));
        expect_same(of_codes.out[i], of_codes.scale[i], expected(back));
        begin += t;
      }
    }
  }
}

TEST(FusedTransposeSplitQuant, HasAnOutputForEveryExpertWhereThereIsNothing) {
  const QuantizedSplits no_columns = fused_transpose_split_quant(zeros({128, 0}, bf16), {}, Sizes{128, 0});
  ASSERT_EQ(no_columns.out.size(), 2u);
  EXPECT_EQ(no_columns.out[0].shape(), (Dims{0, 128}));
  EXPECT_EQ(no_columns.scale[0].shape(), (Dims{1, 0}));
  const QuantizedSplits no_rows = fused_transpose_split_quant(zeros({0, 5}, bf16), {}, Sizes{0, 0, 0});
  ASSERT_EQ(no_rows.out.size(), 3u);
  EXPECT_EQ(no_rows.out[2].shape(), (Dims{5, 0}));
  EXPECT_EQ(no_rows.scale[2].shape(), (Dims{0, 5}));
}

TEST(FusedTransposeSplitQuant, RefusesTokensThatFitNoBlock) {
  const Tensor x = numbers(256, 3);
  EXPECT_THROW(fused_transpose_split_quant(x, {}, Sizes{100, 156}), ValueError);
  EXPECT_THROW(fused_transpose_split_quant(x, {}, Sizes{128}), ValueError);
  EXPECT_THROW(fused_transpose_split_quant(x, {}, Sizes{384}), ValueError);
  EXPECT_THROW(fused_transpose_split_quant(x, {}, Sizes{-128, 384}), ValueError);
  EXPECT_THROW(fused_transpose_split_quant(x.to(f64), {}, Sizes{256}), DTypeError);
  EXPECT_THROW(fused_transpose_split_quant(x.to(DType::f8_e4m3fn), {}, Sizes{256}), Error);
  EXPECT_THROW(fused_transpose_split_quant(x, ones({256, 1}, f32), Sizes{256}), ValueError);
}

TEST(FusedStackQuant, EqualsQuantisingTheStack) {
  const std::vector<Tensor> list{numbers(128, 256, 1), numbers(128, 256, 2), numbers(128, 256, 3)};
  for (const bool pow2 : {true, false}) {
    const QuantOptions options{.pow2 = pow2};
    const Quantized straight = fused_stack_quant(list, pow2);
    EXPECT_EQ(straight.scale.shape(), (Dims{3, 2}));
    expect_same(straight.q, straight.scale, quant_blockwise(cat(list, 0), QuantBlock::tile_128x128, options));
    const Quantized turned = fused_stack_transpose_quant(list, pow2);
    EXPECT_EQ(turned.scale.shape(), (Dims{6, 1}));
    const Tensor stacked = cat({list[0].t(), list[1].t(), list[2].t()}, 0);
    expect_same(turned.q, turned.scale, quant_blockwise(stacked, QuantBlock::tile_128x128, options));
  }
  const Quantized one = fused_stack_transpose_quant(std::vector<Tensor>{numbers(2048, 128)});
  EXPECT_EQ(one.q.shape(), (Dims{128, 2048}));
  EXPECT_EQ(one.scale.shape(), (Dims{1, 16}));
}

TEST(FusedStackQuant, RefusesTilesOfTwoTensors) {
  EXPECT_THROW(fused_stack_quant(std::vector<Tensor>{}), ValueError);
  EXPECT_THROW(fused_stack_quant(std::vector<Tensor>{numbers(100, 128)}), ShapeError);
  EXPECT_THROW(fused_stack_quant(std::vector<Tensor>{numbers(128, 128), numbers(128, 256)}), ShapeError);
  EXPECT_THROW(fused_stack_quant(std::vector<Tensor>{numbers(128, 128).to(f64)}), DTypeError);
}

TEST(FusedRequant, EqualsQuantisingTheDequantisedTranspose) {
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{{5, 130}, {128, 128}, {301, 77}, {1, 1}, {0, 4}}) {
    const QuantOut q = quant_blockwise(numbers(m, n));
    for (const bool pow2 : {true, false}) {
      const Tensor turned = fused_act_dequant(q.q, q.scale).t().contiguous();
      const QuantOut expected = quant_blockwise(turned, QuantBlock::row_1x128, {.pow2 = pow2});
      const Quantized plain = fused_act_dequant_transpose_act_quant(q.q, q.scale, {.pow2 = pow2});
      expect_same(plain.q, plain.scale, expected);
      const Quantized padded = fused_act_dequant_transpose_act_quant(q.q, q.scale, {.pow2 = pow2, .pad_to_8 = true});
      const int64_t width = (m + 7) / 8 * 8;
      EXPECT_EQ(padded.q.shape(), (Dims{n, width}));
      EXPECT_EQ(codes(padded.q.narrow(1, 0, m)), codes(expected.q));
      EXPECT_EQ(codes(padded.q.narrow(1, m, width - m)), Codes(static_cast<size_t>(n * (width - m)), 0));
      EXPECT_EQ(values(padded.scale), values(expected.scale));
    }
  }
}

TEST(FusedWeightedSwigluQuant, EqualsQuantisingTheRoundedProduct) {
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {7, 128}, {4, 4099}, {0, 3}, {3, 0}}) {
    const Tensor x = numbers(m, 2 * n), prob = rand({m});
    const Tensor gate = x.narrow(1, 0, n).to(f32), up = x.narrow(1, n, n).to(f32), y = swiglu(gate, up);
    for (const bool pow2 : {true, false}) {
      const QuantOptions options{.pow2 = pow2};
      const Quantized plain = fused_weighted_swiglu_act_quant(x, {}, pow2);
      expect_same(plain.q, plain.scale, quant_blockwise(y.to(bf16), QuantBlock::row_1x128, options));
      const Quantized weighted = fused_weighted_swiglu_act_quant(x, prob, pow2);
      const Tensor product = (y * prob.unsqueeze(1)).to(bf16);
      expect_same(weighted.q, weighted.scale, quant_blockwise(product, QuantBlock::row_1x128, options));
      const Tensor strided = x.t().contiguous().t();
      EXPECT_EQ(codes(fused_weighted_swiglu_act_quant(strided, prob, pow2).q), codes(weighted.q));
    }
  }
  EXPECT_THROW(fused_weighted_swiglu_act_quant(numbers(2, 3)), ShapeError);
  EXPECT_THROW(fused_weighted_swiglu_act_quant(numbers(2, 4), rand({3})), ShapeError);
  EXPECT_THROW(fused_weighted_swiglu_act_quant(numbers(2, 4).to(f64)), DTypeError);
}

TEST(FusedSwigluWeightedBwd, HasTheValuesOfTheSpecification) {
  const Tensor x = tensor({{1., 2., 3., 4.}}).to(bf16), g = ones({1, 2}, bf16), prob = tensor({.5f});
  const WeightedSwigluBackward out = fused_swiglu_weighted_bwd(x, g, prob);
  expect_values(out.o2.to(f64), {1.0966, 3.5232}, 4e-3);
  expect_values(out.dprob.to(f64), {9.2395524}, 1e-6);
  expect_values(out.do1.to(f64), {2.7830115 / 2, 4.363137 / 2, .7310586 / 2, 1.7615942 / 2}, 4e-3);
}

TEST(FusedSwigluWeightedBwd, EqualsAutogradInDouble) {
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {2, 4099}, {5, 128}}) {
    const Tensor x = numbers(m, 2 * n), g = numbers(m, n, 9), prob = rand({m});
    const Tensor wide = x.to(f64).requires_grad_(), weight = prob.to(f64).requires_grad_();
    const Tensor y = swiglu(wide.narrow(1, 0, n), wide.narrow(1, n, n)) * weight.unsqueeze(1);
    sum(y * g.to(f64)).backward();
    const WeightedSwigluBackward out = fused_swiglu_weighted_bwd(x, g, prob);
    const auto expect_close = [](const Tensor& a, const Tensor& b, double relative) {
      EXPECT_TRUE(all(abs(a.to(f64) - b) <= abs(b) * relative + 1e-30).item<bool>());
    };
    expect_close(out.do1, wide.grad(), 0x1p-8);
    expect_close(out.o2, y.detach(), 0x1p-8);
    EXPECT_LT(max(abs(out.dprob.to(f64) - weight.grad())).item<double>(),
              1e-5 * max(abs(weight.grad())).item<double>() + 1e-3);
    const Quantized q = fused_weighted_swiglu_act_quant(x, prob);
    EXPECT_EQ(codes(q.q), codes(quant_blockwise(out.o2).q)) << "the value anew is the value that was quantised";
  }
}

TEST(FusedSwigluWeightedBwd, StaysFiniteFarOut) {
  const Tensor x = tensor({{-200., 200., 2., 2.}}).to(bf16);
  const WeightedSwigluBackward out = fused_swiglu_weighted_bwd(x, ones({1, 2}, bf16), tensor({1.f}));
  EXPECT_TRUE(all(isfinite(out.do1)).item<bool>());
  expect_values(out.o2.to(f64), {0, 400}, 0);
  const auto none = fused_swiglu_weighted_bwd(zeros({0, 4}, bf16), zeros({0, 2}, bf16), zeros({0}, f32));
  EXPECT_EQ(none.do1.shape(), (Dims{0, 4}));
  expect_values(fused_swiglu_weighted_bwd(zeros({2, 0}, bf16), zeros({2, 0}, bf16), ones({2}, f32)).dprob.to(f64),
                {0, 0}, 0);
}

}  // namespace
}  // namespace weft::testing
