#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <weft/autograd/mode.hpp>
#include <weft/autograd/node.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/allocator.hpp>
#include <weft/tensor/threads.hpp>

#include "ops/samples.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

constexpr Activation all_activations[] = {Activation::none,      Activation::relu, Activation::gelu,
                                          Activation::gelu_tanh, Activation::silu, Activation::selu};

Tensor activated(const Tensor& x, Activation a) {
  switch (a) {
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu(x, Approximate::tanh);
    case Activation::silu:
      return silu(x);
    case Activation::selu:
      return selu(x);
    default:
      return x;
  }
}

TEST(LinearWithActivation, EqualsTheTwoOps) {
  for (const DType dtype : {f64, f32, bf16, f16}) {
    for (const Activation a : all_activations) {
      for (const int64_t rows : {1, 5, 40, 300}) {
        const Tensor x = spread({rows, 33}, 1, -1, 1).to(dtype), w = spread({70, 33}, 2, -1, 1).to(dtype);
        const Tensor b = spread({70}, 3).to(dtype);
        const Tensor wide = activated(linear(x.to(f64), w.to(f64), b.to(f64)), a).to(dtype);
        const Doubles expected = values(wide), actual = values(linear(x, w, b, a));
        const double close = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 4e-3 : 3e-2;
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(actual[i], expected[i], close * (1 + std::fabs(expected[i]))) << i;
        }
      }
    }
  }
}

TEST(LinearWithActivation, AnyRankStridesAndEmptySizes) {
  const Tensor w = spread({4, 3}, 2), b = spread({4}, 3);
  for (const Dims& shape : {Dims{3}, Dims{2, 2, 3}, Dims{0, 3}, Dims{2, 0, 3}}) {
    const Tensor x = spread(shape, 1);
    expect_values(linear(x, w, b, Activation::gelu), values(gelu(linear(x, w, b))));
  }
  const Tensor x = spread({3, 5}, 1).t();
  expect_values(linear(x, w, {}, Activation::relu), values(relu(linear(x, w))));
  expect_values(linear(zeros({2, 0}, f64), zeros({4, 0}, f64), b, Activation::silu), values(silu(b.expand({2, 4}))));
  expect_values(linear(spread({2, 3}, 1), spread({3}, 2), {}, Activation::relu).reshape({2}),
                values(relu(linear(spread({2, 3}, 1), spread({3}, 2)))));
}

TEST(LinearWithActivation, GradientsOfEachActivation) {
  for (const Activation a : all_activations) {
    expect_gradients([a](Inputs in) { return linear(in[0], in[1], in[2], a); },
                     {leaf({2, 2, 3}, 1), leaf({4, 3}, 2), leaf({4}, 3)});
    expect_gradients([a](Inputs in) { return linear(in[0], in[1], {}, a); }, {leaf({3}, 1), leaf({4, 3}, 2)});
  }
}

TEST(LinearWithActivation, ReluKeepsItsOutputAndNoInputOfItsOwn) {
  const Tensor x = randn({64, 32}).requires_grad_(), w = randn({16, 32}), b = randn({16});
  const Tensor y = linear(x, w, b, Activation::relu);
  const auto kept = [](const Node& node) {
    int64_t sum = 0;
    detail::visit_saved(node, [&](const Tensor& t) { sum += t.numel(); });
    return sum;
  };
  EXPECT_EQ(kept(*y.impl()->node), y.numel());
  EXPECT_EQ(kept(*y.impl()->node->edges[0].node()), w.numel());  // x's alone is wanted
  EXPECT_STREQ(y.impl()->node->op, "linear");
}

TEST(LinearWithActivation, ASettingSwitchesFusionOff) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that has not read it yet
  const auto op_of = [] {
    setenv("WEFT_FUSED_LINEAR", "0", 1);
    const Tensor x = ones({2, 3}).requires_grad_();
    _exit(std::string(linear(x, ones({4, 3}), {}, Activation::relu).impl()->node->op) == "relu" ? 7 : 1);
  };
  EXPECT_EXIT(op_of(), ::testing::ExitedWithCode(7), "");
}

TEST(LinearWithActivation, NaNPasses) {
  const Tensor x = doubles({nan, 1}, {2, 1}), w = ones({3, 1}, f64);
  for (const Activation a : all_activations) {
    const Doubles y = values(linear(x, w, {}, a));
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[2])) << static_cast<int>(a);
    EXPECT_FALSE(std::isnan(y[3])) << static_cast<int>(a);
  }
}

/// The additional peak of 50 layers on `rows` rows, in bytes.
int64_t peak_of_layers(int64_t rows, int64_t width, bool fused, bool recorded) {
  const Tensor x = randn({rows, width});
  std::vector<Tensor> weights;
  for (int i = 0; i < 50; ++i) weights.push_back((randn({width, width}) * 0.1).detach().requires_grad_(recorded));
  const Tensor bias = zeros({width});
  reset_peak();
  const size_t before = memory_stats().allocated;
  Tensor y = x;
  for (const Tensor& w : weights) {
    y = fused ? linear(y, w, bias, Activation::relu) : relu(linear(y, w, bias));
  }
  if (recorded) y.sum().backward();
  return static_cast<int64_t>(memory_stats().peak_allocated - before);
}

TEST(LinearWithActivation, FiftyStackedLayersNeedNoMoreMemoryThanUnfused) {
  const int threads = num_threads();
  set_num_threads(1);  // which thread first needs a workspace is chance
  for (const bool recorded : {false, true}) {
    for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 128}, {64, 64}, {300, 128}}) {
      const NoGradGuard unrecorded;
      const GradModeGuard mode({.enabled = recorded});
      for (const bool fused : {false, true}) peak_of_layers(rows, width, fused, recorded);  // what is made once
      const int64_t unfused = peak_of_layers(rows, width, false, recorded);
      EXPECT_LE(peak_of_layers(rows, width, true, recorded), unfused) << rows << " x " << width << ' ' << recorded;
    }
  }
  set_num_threads(threads);
}

TEST(LinearWithActivation, RejectsInvalidArguments) {
  EXPECT_THROW(linear(ones({2, 3}), ones({4, 2}), {}, Activation::relu), ShapeError);
  EXPECT_THROW(linear(ones({2, 3}), ones({4, 3}), ones({3}), Activation::relu), ShapeError);
  EXPECT_THROW(linear(ones({2, 3}), ones({4, 3}, f64), {}, Activation::relu), DTypeError);
  EXPECT_THROW(linear(ones({2, 3}), ones({4, 3}), {}, static_cast<Activation>(9)), ValueError);
}

}  // namespace
}  // namespace weft::testing
