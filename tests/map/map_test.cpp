// weft::map: values against loops in double, derivatives against differences and against the ops of the same name.
#include <weft/backends/cpu/pointwise/loops.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/threads.hpp>

#include "near.hpp"

namespace weft::testing {
namespace {

constexpr auto damped = [](auto x, auto y) { return x * exp(-y); };

Doubles loop(const std::function<double(double, double)>& f, const Tensor& a, const Tensor& b) {
  const Doubles x = values(a), y = values(b);
  Doubles out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(f(x[i], y[i]));
  return out;
}

TEST(Map, EqualsALoop) {
  const auto expected = [](double x, double y) { return x * std::exp(-y); };
  for (int64_t n : {0, 1, 5, 63, 64, 65, 1000, 100000}) {
    const Tensor a = spread({n}, 1), b = spread({n}, 2), out = map(damped, a, b);
    EXPECT_EQ(out.dtype(), f64);
    expect_close(values(out), loop(expected, a, b), 1e-14);
    const Tensor a32 = a.to(f32), b32 = b.to(f32);
    expect_close(values(map(damped, a32, b32)), loop(expected, a32, b32), 1e-6);
  }
}

TEST(Map, EveryDtypeComputesLikeTheOps) {
  const auto f = [](auto x, auto y) { return x * y + x - 2; };
  for (DType t : {f16, bf16, f32, f64, u8, i8, u16, i16, u32, i32, i64}) {
    const Tensor a = tensor({1, 2, 3, 4, 5}).to(t), b = tensor({3, 1, 4, 1, 5}).to(t), out = map(f, a, b);
    EXPECT_EQ(out.dtype(), t);
    EXPECT_EQ(values(out), (Doubles{2, 2, 13, 6, 28})) << name(t);
  }
  const Tensor big = tensor(std::vector<int64_t>{9007199254740993, -7});
  EXPECT_EQ(map([](auto x) { return x + 1; }, big).to_vector<int64_t>(), (std::vector<int64_t>{9007199254740994, -6}));
  EXPECT_THROW(map(f, big.to(u64), big.to(u64)), DTypeError);  // the loops compute integers in int64_t
}

TEST(Map, OperandsArePromotedAndBroadcast) {
  const Tensor column = tensor({{1.}, {2.}}), row = tensor({1, 2, 3});
  const Tensor out = map([](auto x, auto y) { return 10 * x + y; }, column, row);
  EXPECT_EQ(out.dtype(), f32);
  EXPECT_EQ(out.shape(), (Dims{2, 3}));
  EXPECT_EQ(values(out), (Doubles{11, 12, 13, 21, 22, 23}));
  const auto sum = [](auto x, auto y) { return x + y; };
  EXPECT_EQ(map(sum, column.to(bf16), 0.5).dtype(), bf16);
  EXPECT_EQ(values(map(sum, column.to(bf16), 0.5)), (Doubles{1.5, 2.5}));
  EXPECT_EQ(map(sum, row, tensor(2.5)).dtype(), f32);
  EXPECT_EQ(map(sum, 1, 2).item<int64_t>(), 3);
  const Tensor both = tensor({1, 0}).to(boolean);
  EXPECT_EQ(map(sum, both, both).dtype(), boolean);
}

TEST(Map, IntegersLeaveTheIntegersAsInOtherOps) {
  const Tensor a = tensor({-2, 0, 3});
  EXPECT_EQ(map([](auto x) { return x * 0.5; }, a).dtype(), f32);
  EXPECT_EQ(values(map([](auto x) { return x * 0.5; }, a)), (Doubles{-1, 0, 1.5}));
  EXPECT_EQ(values(map([](auto x) { return x / 2; }, a)), (Doubles{-1, 0, 1.5}));
  EXPECT_EQ(values(map([](auto x) { return x > 0 ? x : 0.5; }, a)), (Doubles{0.5, 0.5, 3}));
  EXPECT_EQ(values(map([](auto x) { return select(x > 0, x, 0.5); }, a)), (Doubles{0.5, 0.5, 3}));
  EXPECT_EQ(map([](auto x) { return maximum(x, 0) + abs(x) + pow(x, 2); }, a).dtype(), i64);
  EXPECT_EQ(values(map([](auto x) { return maximum(x, 0) + abs(x) + pow(x, 2); }, a)), (Doubles{6, 0, 15}));
  expect_close(values(map([](auto x) { return exp(x); }, a)), {std::exp(-2), 1, std::exp(3)}, 1e-6);
  EXPECT_EQ(map([](auto x) { return x > 0 ? 1 : 0; }, a).dtype(), i64);
}

TEST(Map, ComparisonsGiveBool) {
  const Tensor a = tensor({1., 5., 2.}).requires_grad_(), b = tensor({3., 4., 2.});
  const Tensor out = map([](auto x, auto y) { return x > y || x == y; }, a, b);
  EXPECT_EQ(out.dtype(), boolean);
  EXPECT_EQ(values(out), (Doubles{0, 1, 1}));
  EXPECT_FALSE(out.requires_grad());
  EXPECT_EQ(values(map([](auto x) { return x > 1 ? 1 : 0; }, a)), (Doubles{0, 1, 1}));
}

TEST(Map, ReadsStridedViewsAndConvertsInBlocks) {
  const Tensor a = spread({70, 90}, 3), b = spread({90, 70}, 4);
  const auto f = [](auto x, auto y) { return x - 3 * y; };
  const Tensor expected = a - 3 * b.t();
  expect_close(values(map(f, a, b.t())), values(expected), 1e-14);
  expect_close(values(map(f, a.slice(1, 0, 90, 2), b.t().slice(1, 0, 90, 2))), values(expected.slice(1, 0, 90, 2)),
               1e-14);
  expect_close(values(map(f, a.slice(0, none, none, -1), b.t().slice(0, none, none, -1))),
               values(expected.slice(0, none, none, -1)), 1e-14);
  expect_close(values(map(f, a.to(bf16), b.t().to(bf16))), values(expected), 0.1);
  expect_close(values(map(f, a.select(0, 3).expand({70, 90}), b.t().select(1, 5).unsqueeze(1))),
               values(a.select(0, 3).expand({70, 90}) - 3 * b.t().select(1, 5).unsqueeze(1)), 1e-14);
}

TEST(Map, UsesCapturedValues) {
  const double scale = 2.5;
  const Tensor x = leaf({4}), y = map([scale](auto v) { return scale * v * v; }, x);
  expect_close(values(y), values(2.5 * x * x), 1e-14);
  y.sum().backward();
  expect_close(values(x.grad()), values(5.0 * x.detach()), 1e-14);
}

TEST(Map, TakesUpToSixOperands) {
  const std::vector<Tensor> x = {leaf({3}, 1), leaf({2, 1}, 2), leaf({}, 3),
                                 leaf({3}, 4), leaf({2, 3}, 5), leaf({1}, 6)};
  const auto f = [](Inputs t) {
    return map([](auto a, auto b, auto c, auto d, auto e, auto g) { return a * b * c + tanh(d * e) * g + a * g * g; },
               t[0], t[1], t[2], t[3], t[4], t[5]);
  };
  EXPECT_EQ(f(x).shape(), (Dims{2, 3}));
  EXPECT_TRUE(gradcheck(f, x));
  EXPECT_TRUE(gradgradcheck(f, x));
  const auto three = [](Inputs t) {
    return map([](auto a, auto b, auto c) { return a / (1 + b * b) - c * c * c; }, t[0], t[1], t[2]);
  };
  EXPECT_TRUE(gradcheck(three, {x[0], x[1], x[2]}));
  EXPECT_TRUE(gradgradcheck(three, {x[0], x[1], x[2]}));
}

TEST(Map, HasTwoDerivatives) {
  const std::vector<Tensor> x = {leaf({2, 3}, 1), leaf({3}, 2)};
  const auto f = [](Inputs t) { return map(damped, t[0], t[1]); };
  EXPECT_TRUE(gradcheck(f, x));
  EXPECT_TRUE(gradgradcheck(f, x));
  const auto strided = [](Inputs t) { return map(damped, t[0].t(), t[0].t()); };
  EXPECT_TRUE(gradcheck(strided, {x[0]}));
  EXPECT_TRUE(gradgradcheck(strided, {x[0]}));
}

TEST(Map, TheSecondDerivativeOfOneOperandAlone) {
  const Tensor x = leaf({5}, 1), y = spread({5}, 2);
  const auto f = [&](Inputs t) { return map([](auto a, auto b) { return a * a * a * b; }, t[0], y); };
  EXPECT_TRUE(gradcheck(f, {x}));
  EXPECT_TRUE(gradgradcheck(f, {x}));
  const auto with_number = [](Inputs t) { return map([](auto a, auto b) { return pow(a * a + 1, b); }, t[0], 1.5); };
  EXPECT_TRUE(gradcheck(with_number, {x}));
  EXPECT_TRUE(gradgradcheck(with_number, {x}));
}

TEST(Map, AThirdDerivativeIsRefused) {
  const Tensor x = leaf({3});
  const Tensor y = map([](auto v) { return v * v * v; }, x).sum();
  const Tensor first = grad({y}, {x}, {}, {.create_graph = true})[0];
  const Tensor second = grad({first.sum()}, {x}, {}, {.create_graph = true})[0];
  expect_close(values(second), values(6.0 * x.detach()), 1e-13);
  EXPECT_THROW(grad({second.sum()}, {x}), NotImplementedError);
}

TEST(Map, IndependentOutputsIgnoreInfinitiesOfAnInput) {
  const Tensor x = tensor({2., 3.}).requires_grad_(), y = tensor({0., 4.}).requires_grad_();
  map([](auto a, auto b) { return a + sqrt(b); }, x, y).sum().backward();
  EXPECT_EQ(values(x.grad()), (Doubles{1, 1}));
  EXPECT_EQ(values(y.grad()), (Doubles{infinity, 0.25}));
}

TEST(Map, GradientsOfHalvesAndBroadcastsAgreeWithTheOps) {
  for (DType t : {f16, bf16, f32}) {
    const Tensor a = spread({33, 65}, 1).to(t).requires_grad_(), b = spread({65}, 2).to(t).requires_grad_();
    map([](auto x, auto y) { return x * sigmoid(y); }, a, b).sum().backward();
    EXPECT_EQ(a.grad().dtype(), t);
    const Tensor wa = a.grad(), wb = b.grad();
    a.set_grad({});
    b.set_grad({});
    const Tensor a64 = a.detach().to(f64).requires_grad_(), b64 = b.detach().to(f64).requires_grad_();
    (a64 * sigmoid(b64)).sum().backward();
    const double relative = t == f32 ? 1e-5 : (t == f16 ? 2e-3 : 2e-2);
    expect_close(values(wa), values(a64.grad()), relative);
    expect_close(values(wb), values(b64.grad()), relative);
  }
}

TEST(Map, DetectsWritesToSavedTensors) {
  const Tensor x = leaf({3}), y = x * 2;
  const Tensor out = map([](auto v) { return v * v; }, y);
  y.add_(1.0);
  EXPECT_THROW(out.sum().backward(), AutogradError);
}

TEST(Map, RecordsNothingUnlessAsked) {
  const Tensor x = leaf({3});
  const NoGradGuard guard;
  EXPECT_FALSE(map([](auto v) { return v * v; }, x).requires_grad());
}

TEST(Map, ReportsWrongOperandsAtTheCall) {
  const auto f = [](auto x, auto y) { return x + y; };
  EXPECT_THROW(map(f, ones({2}), ones({3})), ShapeError);
  EXPECT_THROW(map(f, Tensor(), ones({3})), ValueError);
  try {
    map(f, ones({2}), ones({3}));
  } catch (const ShapeError& e) {
    EXPECT_NE(std::string(e.what()).find("map_test.cpp"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("[map]"), std::string::npos) << e.what();
  }
}

TEST(Map, ThreadsDoNotChangeTheResult) {
  const Tensor a = randn({300000}), b = randn({300, 1000}).t().reshape({-1});
  const int threads = num_threads();
  set_num_threads(1);
  const Tensor one = map(damped, a, b);
  set_num_threads(4);
  const Tensor four = map(damped, a, b);
  set_num_threads(threads);
  EXPECT_EQ(one.to_vector<float>(), four.to_vector<float>());
}

TEST(Map, EverySimdLevelGivesTheSameBits) {
  const Tensor x = (rand({1003}) * 1.9 + 0.1).detach().requires_grad_(), y = (rand({1003}) * 2 - 1).requires_grad_();
  const auto f = [](auto a, auto b) {
    return sqrt(a) * tanh(b) + log1p(a) * expm1(b) - floor(a * b) + log(a) * exp(b);
  };
  std::vector<std::vector<float>> results[3];
  const char* const levels[] = {"scalar", "avx2", "avx512"};
  for (int level = 0; level < 3; ++level) {
    ASSERT_TRUE(cpu::use_simd_target(levels[level]));
    const Tensor out = map(f, x, y);
    const std::vector<Tensor> g = grad({out.sum()}, {x, y}, {}, {.create_graph = true});
    const std::vector<Tensor> second = grad({g[0].sum()}, {x, y});
    for (const Tensor& t : {out, g[0], g[1], second[0], second[1]}) results[level].push_back(t.to_vector<float>());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace weft::testing
