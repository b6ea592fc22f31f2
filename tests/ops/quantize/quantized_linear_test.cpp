#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <weft/ops/gradcheck.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pad.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/quantize.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "fp8_reference.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

std::vector<WeightQuantOptions> formats() {
  std::vector<WeightQuantOptions> all;
  for (const int64_t bits : {8, 4}) {
    for (const int64_t group : {0, 2, 32, 128}) {
      for (const bool symmetric : {true, false}) all.push_back({bits, group, symmetric});
    }
  }
  return all;
}
QuantizedLinearOptions use_of(const QuantizedWeight& w, const WeightQuantOptions& o, std::optional<Tensor> bias = {}) {
  return {w.zero, std::move(bias), o.bits, o.group_size};
}
/// [n, k] with the scale of each element's group.
Tensor scales_of(const QuantizedWeight& w, const WeightQuantOptions& o, int64_t k) {
  const int64_t width = o.group_size == 0 ? k : o.group_size;
  return index_select(w.scale, 1, floor_divide(arange(0, k, 1, i64), width)).to(f64);
}

TEST(QuantizeWeight, EveryWeightIsAtMostHalfAScaleOff) {
  manual_seed(1);
  for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 33}, {8, 256}, {3, 130}}) {
    const Tensor w = randn({n, k}) * exp(2 * randn({n, 1})) + 0.3;
    for (const WeightQuantOptions& o : formats()) {
      const QuantizedWeight q = quantize_weight(w, o);
      const Tensor back = dequantize_weight(q.codes, q.scale, k, use_of(q, o), f64);
      const Tensor error = abs(back - w.to(f64)), bound = scales_of(q, o, k) * 0.5 + abs(w.to(f64)) * 1e-6;
      EXPECT_TRUE(all(error <= bound).item<bool>()) << o.bits << " bits, groups of " << o.group_size;
      EXPECT_EQ(q.codes.dtype(), o.bits == 8 && o.symmetric ? i8 : u8);
      EXPECT_EQ(q.codes.size(1), o.bits == 8 ? k : (k + 1) / 2);
    }
  }
}

TEST(QuantizeWeight, PacksTheFirstOfAPairIntoTheLowHalf) {
  const QuantizedWeight w = quantize_weight(tensor({{7., -7., 0., 3., 1.}}), {.bits = 4, .group_size = 0});
  EXPECT_EQ(values(w.codes), (Doubles{15 + 16 * 1, 8 + 16 * 11, 9}));
  expect_values(w.scale.to(f64), {1}, 0);
  EXPECT_EQ(w.zero.shape(), (Dims{0, 0}));
  const QuantizedWeight a = quantize_weight(tensor({{2., 17.}}), {.bits = 4, .group_size = 0, .symmetric = false});
  EXPECT_EQ(values(a.codes), (Doubles{240}));
  expect_values(a.zero.to(f64), {2}, 0);
}

TEST(QuantizeWeight, OfZerosOfOneValueAndOfNothing) {
  for (const WeightQuantOptions& o : formats()) {
    const QuantizedWeight z = quantize_weight(zeros({2, 6}, f32), o);
    EXPECT_EQ(values(dequantize_weight(z.codes, z.scale, 6, use_of(z, o))), Doubles(12, 0));
    if (!o.symmetric) {
      const QuantizedWeight c = quantize_weight(full({2, 6}, 1.5, f32), o);
      EXPECT_EQ(values(dequantize_weight(c.codes, c.scale, 6, use_of(c, o))), Doubles(12, 1.5));
    }
    for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{{0, 4}, {3, 0}}) {
      const QuantizedWeight none = quantize_weight(zeros({n, k}, f32), o);
      EXPECT_EQ(dequantize_weight(none.codes, none.scale, k, use_of(none, o)).shape(), (Dims{n, k}));
      const Tensor y = quantized_linear(ones({2, k}, f32), none.codes, none.scale, use_of(none, o));
      EXPECT_EQ(values(y), Doubles(static_cast<size_t>(2 * n), 0));
    }
  }
}

TEST(QuantizeWeight, HoldsTheLargestNumbers) {
  const double most = 3.4e38;
  const Tensor w = tensor({{-most, most, 0., most / 3}}).to(f32);
  for (const WeightQuantOptions& o : formats()) {
    const QuantizedWeight q = quantize_weight(w, o);
    EXPECT_TRUE(all(isfinite(q.scale)).item<bool>());
    const Tensor error = abs(dequantize_weight(q.codes, q.scale, 4, use_of(q, o), f64) - w.to(f64));
    EXPECT_TRUE(all(error <= scales_of(q, o, 4) * 0.500001).item<bool>());
  }
}

TEST(QuantizeWeight, RefusesFormatsAndWeightsThatAreNone) {
  const Tensor w = zeros({2, 4}, f32);
  EXPECT_THROW(quantize_weight(w, {.bits = 3}), ValueError);
  EXPECT_THROW(quantize_weight(w, {.group_size = -1}), ValueError);
  EXPECT_THROW(quantize_weight(w, {.bits = 4, .group_size = 3}), ValueError);
  EXPECT_THROW(quantize_weight(zeros({4}, f32)), ShapeError);
  EXPECT_THROW(quantize_weight(w.to(i32)), DTypeError);
  EXPECT_THROW(quantize_weight(tensor({{nan}})), ValueError);
  EXPECT_THROW(quantize_weight(tensor({{infinity}})), ValueError);
}

TEST(QuantizedLinear, EqualsTheProductWithTheDecodedWeight) {
  manual_seed(2);
  for (const int64_t m : {1, 2, 3, 4, 5, 8, 9, 40}) {
    for (const auto& [n, k] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 33}, {130, 256}, {129, 514}, {34, 97}}) {
      const Tensor w = randn({n, k}), x = randn({m, k}), b = randn({n});
      for (const WeightQuantOptions& o : formats()) {
        const QuantizedWeight q = quantize_weight(w, o);
        const Tensor wide = dequantize_weight(q.codes, q.scale, k, use_of(q, o), f64);
        for (const DType dtype : {f32, bf16, f16}) {
          const Tensor in = x.to(dtype), bias = b.to(dtype);
          const Tensor y = quantized_linear(in, q.codes, q.scale, use_of(q, o, bias));
          EXPECT_EQ(y.dtype(), dtype);
          const Tensor expected = linear(in.to(f64), wide, bias.to(f64));
          // Panels of bf16 round the weight once more, and some products round before the bias is added.
          const double each = dtype == f32 ? 1e-5 : dtype == f16 ? 1e-4 : 0x1p-8 + 1e-5;
          const double once = dtype == f32 ? 0 : dtype == f16 ? 0x1p-11 : 0x1p-8;
          const Tensor bound = matmul(abs(in.to(f64)), abs(wide).t()) * each + abs(expected) * once + 1e-6;
          ASSERT_TRUE(all(abs(y.to(f64) - expected) <= bound).item<bool>())
              << fmt::format("{} [{}, {}, {}] {} bits in {}", name(dtype), m, n, k, o.bits, o.group_size);
        }
      }
    }
  }
}

TEST(QuantizedLinear, IsOffByHalfAScaleForEachInputAtMost) {
  manual_seed(3);
  const Tensor w = randn({64, 300}), x = randn({4, 300});
  for (const WeightQuantOptions& o : formats()) {
    const QuantizedWeight q = quantize_weight(w, o);
    const Tensor error =
        abs(quantized_linear(x, q.codes, q.scale, use_of(q, o)).to(f64) - matmul(x.to(f64), w.t().to(f64)));
    const Tensor bound = matmul(abs(x.to(f64)), (scales_of(q, o, 300) * 0.5).t()) + 1e-3;
    EXPECT_TRUE(all(error <= bound).item<bool>());
    EXPECT_GT(max(error).item<double>(), 1e-6) << "nothing was quantised";
  }
}

TEST(QuantizedLinear, TakesAnyRankStridesAndOffsets) {
  manual_seed(4);
  const QuantizedWeight q = quantize_weight(randn({6, 34}), {.bits = 4, .group_size = 2});
  const QuantizedLinearOptions o = use_of(q, {.bits = 4, .group_size = 2});
  const Tensor x = randn({3, 35, 2});
  const Tensor view = x.slice(1, 1, 35).transpose(1, 2);
  const Tensor y = quantized_linear(view, q.codes, q.scale, o);
  EXPECT_EQ(y.shape(), (Dims{3, 2, 6}));
  EXPECT_EQ(values(y), values(quantized_linear(view.contiguous(), q.codes, q.scale, o)));
  EXPECT_EQ(quantized_linear(view[0][1], q.codes, q.scale, o).shape(), (Dims{6}));
  const auto turned = [](const Tensor& t) { return t.t().contiguous().t(); };
  EXPECT_EQ(values(quantized_linear(view, turned(q.codes), turned(q.scale), o)), values(y));
  EXPECT_EQ(quantized_linear(zeros({0, 34}, f32), q.codes, q.scale, o).shape(), (Dims{0, 6}));
}

TEST(QuantizedLinear, HasTheGradientsOfItsInputAndBias) {
  for (const WeightQuantOptions& o : {WeightQuantOptions{}, WeightQuantOptions{4, 2, false}}) {
    const QuantizedWeight q = quantize_weight(spread({3, 5}), o);
    expect_gradients([&](Inputs in) { return quantized_linear(in[0], q.codes, q.scale, use_of(q, o, in[1])); },
                     {leaf({2, 5}), leaf({3})});
    const Tensor x = spread({2, 5}).to(f32).requires_grad_();
    sum(quantized_linear(x, q.codes, q.scale, use_of(q, o))).backward();
    const Tensor wide = dequantize_weight(q.codes, q.scale, 5, use_of(q, o));
    expect_near(values(x.grad()), values(sum(wide, {0}, true).expand({2, 5})), 1e-6);
  }
}

TEST(QuantizedLinear, GivesTheSameBitsForEveryNumberOfRows) {
  manual_seed(5);
  const Tensor x = randn({8, 200});
  const QuantizedWeight q = quantize_weight(randn({70, 200}));
  const Tensor all_rows = quantized_linear(x, q.codes, q.scale);
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(values(quantized_linear(x.narrow(0, i, 1), q.codes, q.scale)), values(all_rows.narrow(0, i, 1)));
  }
}

TEST(QuantizedLinear, RejectsInvalidArguments) {
  const QuantizedWeight q = quantize_weight(zeros({3, 10}, f32));
  const Tensor x = zeros({2, 10}, f32);
  EXPECT_THROW(quantized_linear(zeros({2, 9}, f32), q.codes, q.scale), ShapeError);
  EXPECT_THROW(quantized_linear(x, q.codes, zeros({3, 2}, f32)), ShapeError);
  EXPECT_THROW(quantized_linear(x, q.codes, q.scale, {.group_size = 4}), ShapeError);
  EXPECT_THROW(quantized_linear(x, q.codes, q.scale, {.bits = 5}), ValueError);
  EXPECT_THROW(quantized_linear(x, q.codes.to(i32), q.scale), DTypeError);
  EXPECT_THROW(quantized_linear(x, q.codes, q.scale.to(bf16)), DTypeError);
  EXPECT_THROW(quantized_linear(x, q.codes, q.scale, {.bias = zeros({3}, bf16)}), DTypeError);
  EXPECT_THROW(quantized_linear(x, q.codes, q.scale, {.bias = zeros({4}, f32)}), ShapeError);
  EXPECT_THROW(quantized_linear(x.to(i32), q.codes, q.scale), DTypeError);
  EXPECT_THROW(quantized_linear(tensor(1.0), q.codes, q.scale), ShapeError);
}

}  // namespace
}  // namespace weft::testing
