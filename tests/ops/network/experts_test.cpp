#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <weft/ops/create.hpp>
#include <weft/ops/fused.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/moe.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/softmax.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

using Tensors = std::vector<Tensor>;

Tensor identity(int64_t n) { return eye(n, {}, f64); }
Tensor ids(std::vector<int64_t> values, const Dims& shape) { return tensor(values).reshape(shape); }

struct Experts {
  Tensors gate_up, down;
};
/// `total` experts [H, 2 F] and [F, H].
Experts some_experts(int64_t total, int64_t h, int64_t f, DType dtype = f64) {
  Experts out;
  for (int64_t e = 0; e < total; ++e) {
    const auto seed = static_cast<uint64_t>(e);
    out.gate_up.push_back(spread({h, 2 * f}, 10 + seed, -1, 1).to(dtype));
    out.down.push_back(spread({f, h}, 1000 + seed, -1, 1).to(dtype));
  }
  return out;
}
/// Experts by a loop over tokens and choices, in double.
Tensor by_loops(const Tensor& h, const Tensor& routing, const Tensor& weights, const Experts& experts,
                int64_t first = 0) {
  const auto chosen = routing.to(i64).to_vector<int64_t>();
  const Doubles factors = values(weights);
  const Tensor out = zeros(h.sizes(), f64);
  const int64_t k = routing.size(1);
  for (int64_t t = 0; t < h.size(0); ++t) {
    for (int64_t j = 0; j < k; ++j) {
      const int64_t e = chosen[static_cast<size_t>(t * k + j)] - first;
      if (e < 0 || e >= std::ssize(experts.down)) continue;
      const auto at = static_cast<size_t>(e);
      const Tensor both = matmul(h.narrow(0, t, 1).to(f64), experts.gate_up[at].to(f64));
      const int64_t f = both.size(1) / 2;
      const Tensor y = matmul(swiglu(both.narrow(1, 0, f), both.narrow(1, f, f)), experts.down[at].to(f64));
      out.narrow(0, t, 1).add_(y * factors[static_cast<size_t>(t * k + j)]);
    }
  }
  return out;
}

struct Literal {
  Tensor h = doubles({1, 0, 0, 2}, {2, 2});
  Tensor routing = ids({0, 1, 1, 0}, {2, 2});
  Tensor weights = doubles({.75, .25, 1, 0}, {2, 2});
  Tensors gates = {identity(2), identity(2)}, ups = {identity(2), identity(2) * 2}, down = {identity(2), identity(2)};
  Tensors joined() const { return {cat({gates[0], ups[0]}, 1), cat({gates[1], ups[1]}, 1)}; }
  Tensors apart() const { return {gates[0], gates[1], ups[0], ups[1]}; }
};

TEST(MixtureOfExperts, CaseOfTheSpecification) {
  const Literal l;
  for (const Tensors& gate_up : {l.joined(), l.apart()}) {
    const auto [out, amax] = mixture_of_experts(l.h, l.routing, l.weights, gate_up, l.down, {.measure_amax = true});
    expect_values(out, {0.913823, 0, 0, 7.046377}, 1e-6);
    expect_values(amax, {3.523188, 7.046377}, 1e-6);
  }
}

TEST(MixtureOfExperts, ShapesOfAmaxFollowExpertsAndNotChoices) {
  const Experts e = some_experts(5, 4, 3);
  const Tensor h = ones({3, 4}, f64), routing = ids({1, 1, 4}, {3, 1}), weights = ones({3, 1}, f64);
  EXPECT_EQ(std::get<1>(mixture_of_experts(h, routing, weights, e.gate_up, e.down, {.measure_amax = true})).shape(),
            Dims(5));
  EXPECT_EQ(std::get<1>(mixture_of_experts(h, routing, weights, e.gate_up, e.down)).shape(), Dims(0));
}

TEST(MixtureOfExperts, EqualsLoopsForAnyNumberOfExpertsAndChoices) {
  for (const int64_t total : {1, 2, 7, 64}) {
    const Experts e = some_experts(total, 6, 5);
    for (const int64_t k : {1, 3}) {
      const Tensor h = spread({9, 6}, 1), weights = spread({9, k}, 2);
      const Tensor routing = SampleMaker(i64, {}, 3).indices({9, k}, total + 1) - 1;
      const auto [out, amax] = mixture_of_experts(h, routing, weights, e.gate_up, e.down);
      expect_values(out, values(by_loops(h, routing, weights, e)), 1e-12);
      expect_values(std::get<0>(mixture_of_experts(h, routing.to(i32), weights, e.gate_up, e.down)), values(out), 0);
    }
  }
}

TEST(MixtureOfExperts, SlicesOfTheExpertsAddUpToTheWhole) {
  const Experts e = some_experts(6, 4, 3);
  const Tensor h = spread({10, 4}, 1), weights = spread({10, 2}, 2);
  const Tensor routing = SampleMaker(i64, {}, 3).indices({10, 2}, 6);
  const auto [whole, amax] = mixture_of_experts(h, routing, weights, e.gate_up, e.down, {.measure_amax = true});
  for (const bool says_total : {true, false}) {
    Tensor sum = zeros({10, 4}, f64);
    for (int64_t first = 0; first < 6; first += 2) {
      const auto at = static_cast<size_t>(first);
      const Tensors gate_up = {e.gate_up[at], e.gate_up[at + 1]}, down = {e.down[at], e.down[at + 1]};
      MoeOptions options{.experts_min = first, .experts_max = first + 1, .measure_amax = true};
      if (says_total) options.total_experts = 6;
      const auto [part, part_amax] = mixture_of_experts(h, routing, weights, gate_up, down, options);
      sum = sum + part;
      expect_values(part_amax, values(amax.narrow(0, first, 2)), 0);
    }
    expect_values(sum, values(whole), 1e-12);
  }
}

TEST(MixtureOfExperts, OneExpertMayTakeAllTokensAndOthersNone) {
  const Experts e = some_experts(64, 4, 3);
  const Tensor h = spread({20, 4}, 1), routing = full({20, 1}, 63, i64), weights = ones({20, 1}, f64);
  const auto [out, amax] = mixture_of_experts(h, routing, weights, e.gate_up, e.down, {.measure_amax = true});
  expect_values(out, values(fused_mlp(h, e.gate_up[63], {}, e.down[63])), 0);
  expect_values(amax.narrow(0, 0, 63), Doubles(63, 0), 0);
  EXPECT_GT(values(amax)[63], 0);
}

TEST(MixtureOfExperts, TheSameExpertTwiceAddsTwiceAndNoneGivesZero) {
  const Experts e = some_experts(2, 4, 3);
  const Tensor h = spread({2, 4}, 1), weights = doubles({1, 1, 5, 7}, {2, 2});
  const Tensor out = std::get<0>(mixture_of_experts(h, ids({1, 1, -1, -1}, {2, 2}), weights, e.gate_up, e.down));
  const Tensor once = fused_mlp(h, e.gate_up[1], {}, e.down[1]);
  expect_values(out.select(0, 0), values(once.select(0, 0) * 2), 1e-13);
  expect_values(out.select(0, 1), {0, 0, 0, 0}, 0);
}

TEST(MixtureOfExperts, NoTokensAndNoChoices) {
  const Experts e = some_experts(2, 4, 3);
  const auto [none, amax] = mixture_of_experts(zeros({0, 4}, f64), zeros({0, 2}, i64), zeros({0, 2}, f64), e.gate_up,
                                               e.down, {.measure_amax = true});
  EXPECT_EQ(none.shape(), (Dims{0, 4}));
  expect_values(amax, {0, 0}, 0);
  const Tensor out =
      std::get<0>(mixture_of_experts(ones({3, 4}, f64), zeros({3, 0}, i64), zeros({3, 0}, f64), e.gate_up, e.down));
  expect_values(out, Doubles(12, 0), 0);
  const Tensor h = leaf({2, 4}, 1);
  std::get<0>(mixture_of_experts(h, full({2, 1}, -1, i64), ones({2, 1}, f64), e.gate_up, e.down)).sum().backward();
  expect_values(h.grad(), Doubles(8, 0), 0);
}

TEST(MixtureOfExperts, AddsInTheOrderOfExperts) {
  const Experts e = some_experts(5, 16, 8, f32);
  const Tensor h = spread({7, 16}, 1).to(f32), weights = spread({7, 4}, 2).to(f32);
  const Tensor routing = ids({3, 0, 4, 1}, {1, 4}).expand({7, 4});
  const Tensor out = std::get<0>(mixture_of_experts(h, routing, weights, e.gate_up, e.down));
  for (int run = 0; run < 3; ++run) {
    expect_values(std::get<0>(mixture_of_experts(h, routing, weights, e.gate_up, e.down)), values(out), 0);
  }
  const Tensor back = std::get<0>(mixture_of_experts(h, routing.flip({1}), weights.flip({1}), e.gate_up, e.down));
  expect_values(back, values(out), 0);
}

TEST(MixtureOfExperts, SixteenBitFloatsAreSummedInSinglePrecision) {
  for (const DType dtype : {bf16, f16}) {
    const Experts e = some_experts(4, 32, 16, dtype);
    const Tensor h = spread({12, 32}, 1).to(dtype), weights = softmax(spread({12, 2}, 2).to(f32), -1);
    const Tensor routing = SampleMaker(i64, {}, 3).indices({12, 2}, 4);
    const Tensor out = std::get<0>(mixture_of_experts(h, routing, weights, e.gate_up, e.down));
    EXPECT_EQ(out.dtype(), dtype);
    const Doubles expected = values(by_loops(h, routing, weights, e)), actual = values(out);
    double largest = 0;
    for (const double v : expected) largest = std::max(largest, std::fabs(v));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], (dtype == bf16 ? 2e-2 : 2e-3) * largest);
    }
  }
}

TEST(MixtureOfExperts, ActivationsAndTransposedWeights) {
  const Experts e = some_experts(2, 4, 3);
  const Tensors turned = {e.gate_up[0].t().contiguous(), e.gate_up[1].t().contiguous()};
  const Tensors down = {e.down[0].t().contiguous(), e.down[1].t().contiguous()};
  const Tensor h = spread({3, 4}, 1), routing = ids({0, 1, 1}, {3, 1}), weights = ones({3, 1}, f64);
  for (const Activation a : {Activation::silu, Activation::gelu, Activation::relu, Activation::selu}) {
    const Tensor out = std::get<0>(mixture_of_experts(h, routing, weights, e.gate_up, e.down, {.activation = a}));
    const Activation exact = a == Activation::gelu ? Activation::gelu_tanh : a;
    const Tensor first = fused_mlp(h.narrow(0, 0, 1), e.gate_up[0], {}, e.down[0], false, exact);
    expect_values(out.narrow(0, 0, 1), values(first), 1e-13);
    expect_values(std::get<0>(mixture_of_experts(h, routing, weights, turned, down,
                                                 {.activation = a, .transposed_weights = true})),
                  values(out), 1e-13);
  }
}

TEST(MixtureOfExperts, GradientsThroughTokensWeightsAndExperts) {
  const Tensor routing = ids({0, 1, 1, -1, 0, 0}, {3, 2});
  const auto f = [&](Inputs in) {
    const Tensors gate_up = {in[2], in[3]}, down = {in[4], in[5]};
    return std::get<0>(mixture_of_experts(in[0], routing, in[1], gate_up, down));
  };
  expect_gradients(
      f, {leaf({3, 2}, 1), leaf({3, 2}, 2), leaf({2, 6}, 3), leaf({2, 6}, 4), leaf({3, 2}, 5), leaf({3, 2}, 6)});
}

TEST(MixtureOfExperts, RejectsInvalidArguments) {
  const Experts e = some_experts(2, 4, 3);
  const Tensor h = ones({3, 4}, f64), routing = zeros({3, 2}, i64), weights = ones({3, 2}, f64);
  const auto run = [&](const Tensor& r, const MoeOptions& o = {}) {
    return mixture_of_experts(h, r, weights, e.gate_up, e.down, o);
  };
  EXPECT_THROW(run(routing + 2), IndexError);
  EXPECT_THROW(run(routing - 2), IndexError);
  EXPECT_THROW(run(routing + 4, {.total_experts = 4}), IndexError);
  EXPECT_NO_THROW(run(routing + 3, {.total_experts = 4}));
  EXPECT_THROW(run(routing, {.activation = Activation::none}), ValueError);
  EXPECT_THROW(run(routing, {.activation = static_cast<Activation>(77)}), ValueError);
  EXPECT_THROW(run(routing, {.experts_min = 1, .experts_max = 1}), ValueError);
  EXPECT_THROW(run(routing, {.experts_min = -1}), ValueError);
  EXPECT_THROW(run(routing, {.total_experts = 1}), ValueError);
  EXPECT_THROW(run(routing, {.quantisation = ExpertQuantisation::per_tensor}), NotImplementedError);
  EXPECT_THROW(run(routing.to(f64)), DTypeError);
  EXPECT_THROW(run(routing.narrow(0, 0, 2)), ShapeError);
  EXPECT_THROW(mixture_of_experts(h, routing, ones({3, 1}, f64), e.gate_up, e.down), ShapeError);
  const Tensors three = {e.gate_up[0], e.gate_up[1], e.gate_up[0]};
  EXPECT_THROW(mixture_of_experts(h, routing, weights, three, e.down), ShapeError);
  EXPECT_THROW(mixture_of_experts(h, routing, weights, {}, {}), ShapeError);
  EXPECT_THROW(mixture_of_experts(h.to(f32), routing, weights, e.gate_up, e.down), DTypeError);
  const Tensors uneven = {e.down[0], ones({3, 5}, f64)};
  EXPECT_THROW(mixture_of_experts(h, routing, weights, e.gate_up, uneven), ShapeError);
}

// ---- by a gate ------------------------------------------------------------------------------------------------------

TEST(MoeTopkGate, CasesOfTheSpecification) {
  const Tensor gate = doubles({1, 2, 3, 0}, {1, 4});
  const auto [weights, chosen] = moe_topk_gate(gate, {}, 2, false);
  expect_values(chosen, {2, 1}, 0);
  expect_values(weights, {.643914, .236883}, 1e-6);
  expect_values(std::get<0>(moe_topk_gate(gate, {}, 2, true)), {.731059, .268941}, 1e-6);
  const Tensor bias = doubles({0, 0, -1, .5});
  const auto [unbiased, by_bias] = moe_topk_gate(gate, bias, 2, false);
  expect_values(by_bias, {3, 1}, 0);
  expect_values(unbiased, {.032059, .236883}, 1e-5);
  expect_values(std::get<0>(moe_topk_gate(gate, bias, 2, true)), {.119203, .880797}, 1e-6);
}

TEST(MoeTopkGate, TiesGoToTheFirstAndSumsOfZeroGiveZero) {
  const auto [weights, chosen] = moe_topk_gate(zeros({2, 6}, f64), {}, 3, false);
  expect_values(chosen, {0, 1, 2, 0, 1, 2}, 0);
  // Two experts with probability 0 are chosen by their bias.
  const Tensor gate = doubles({0, -2000, -2000}, {1, 3}).requires_grad_();
  const Tensor zero = std::get<0>(moe_topk_gate(gate, doubles({-9, 0, 0}), 2, true));
  expect_values(zero, {0, 0}, 0);
  zero.sum().backward();
  for (const double g : values(gate.grad())) EXPECT_FALSE(std::isnan(g));
}

TEST(FusedGateMoe, IsAMixtureByTheChoiceOfTheGate) {
  const Experts e = some_experts(5, 4, 3);
  const Tensor h = spread({7, 4}, 1), gate = spread({7, 5}, 2), bias = spread({5}, 3);
  const auto [weights, chosen] = moe_topk_gate(gate, bias, 2, true);
  const Tensor out = std::get<0>(fused_gate_moe(h, gate, bias, e.gate_up, e.down, 2, true));
  expect_values(out, values(by_loops(h, chosen, weights, e)), 1e-12);
  Tensor sum = zeros({7, 4}, f64);
  for (size_t first = 0; first < 5; ++first) {
    const Tensors one_gate = {e.gate_up[first]}, one_down = {e.down[first]};
    const MoeOptions options{.experts_min = static_cast<int64_t>(first)};
    sum = sum + std::get<0>(fused_gate_moe(h, gate, bias, one_gate, one_down, 2, true, options));
  }
  expect_values(sum, values(out), 1e-12);
}

TEST(FusedGateMoe, GradientsGoThroughTheNormalisationAndNotThroughTheChoice) {
  const Tensor gate = doubles({1, 2, 3, .5, 2, .25}, {2, 3}).requires_grad_();
  for (const bool norm : {false, true}) {
    const auto f = [&](Inputs in) {
      const Tensors gate_up = {in[2], in[3], in[4]}, down = {in[5], in[6], in[7]};
      return std::get<0>(fused_gate_moe(in[0], in[1], {}, gate_up, down, 2, norm));
    };
    expect_gradients(f, {leaf({2, 2}, 1), gate, leaf({2, 4}, 2), leaf({2, 4}, 3), leaf({2, 4}, 4), leaf({2, 2}, 5),
                         leaf({2, 2}, 6), leaf({2, 2}, 7)});
  }
}

TEST(FusedGateMoe, RejectsInvalidArguments) {
  const Experts e = some_experts(2, 4, 3);
  const Tensor h = ones({3, 4}, f64);
  EXPECT_THROW(fused_gate_moe(h, ones({3, 2}, f64), {}, e.gate_up, e.down, 3, false), ValueError);
  EXPECT_THROW(fused_gate_moe(h, ones({3, 1}, f64), {}, e.gate_up, e.down, 1, false), ValueError);
  EXPECT_THROW(fused_gate_moe(h, ones({2, 2}, f64), {}, e.gate_up, e.down, 1, false), ShapeError);
  EXPECT_THROW(fused_gate_moe(h, ones({3, 2}, f64), ones({3}, f64), e.gate_up, e.down, 1, false), ShapeError);
  EXPECT_THROW(fused_gate_moe(h, ones({3, 2}, i64), {}, e.gate_up, e.down, 1, false), DTypeError);
}

}  // namespace
}  // namespace weft::testing
