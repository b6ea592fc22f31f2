// weft::map: values against loops in double, derivatives against differences and against the ops of the same name.
#include <cmath>
#include <limits>

#include <weft/backends/cpu/pointwise/loops.hpp>
#include <weft/map/map.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/threads.hpp>

#include "../ops/values.hpp"

namespace weft::testing {
namespace {

constexpr auto damped = [](auto x, auto y) { return x * exp(-y); };

Doubles loop(const std::function<double(double, double)>& f, const Tensor& a, const Tensor& b) {
  const Doubles x = values(a), y = values(b);
  Doubles out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(f(x[i], y[i]));
  return out;
}
void expect_near(const Doubles& actual, const Doubles& expected, double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], relative * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

TEST(Map, GivesWhatALoopGives) {
  const auto expected = [](double x, double y) { return x * std::exp(-y); };
  for (int64_t n : {0, 1, 5, 63, 64, 65, 1000, 100000}) {
    const Tensor a = spread({n}, 1), b = spread({n}, 2), out = map(damped, a, b);
    EXPECT_EQ(out.dtype(), f64);
    expect_near(values(out), loop(expected, a, b), 1e-14);
    const Tensor a32 = a.to(f32), b32 = b.to(f32);
    expect_near(values(map(damped, a32, b32)), loop(expected, a32, b32), 1e-6);
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
  expect_near(values(map([](auto x) { return exp(x); }, a)), {std::exp(-2), 1, std::exp(3)}, 1e-6);
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
  expect_near(values(map(f, a, b.t())), values(expected), 1e-14);
  expect_near(values(map(f, a.slice(1, 0, 90, 2), b.t().slice(1, 0, 90, 2))), values(expected.slice(1, 0, 90, 2)),
              1e-14);
  expect_near(values(map(f, a.slice(0, none, none, -1), b.t().slice(0, none, none, -1))),
              values(expected.slice(0, none, none, -1)), 1e-14);
  expect_near(values(map(f, a.to(bf16), b.t().to(bf16))), values(expected), 0.1);
  expect_near(values(map(f, a.select(0, 3).expand({70, 90}), b.t().select(1, 5).unsqueeze(1))),
              values(a.select(0, 3).expand({70, 90}) - 3 * b.t().select(1, 5).unsqueeze(1)), 1e-14);
}

TEST(Map, UsesWhatTheLambdaCaptured) {
  const double scale = 2.5;
  const Tensor x = leaf({4}), y = map([scale](auto v) { return scale * v * v; }, x);
  expect_near(values(y), values(2.5 * x * x), 1e-14);
  y.sum().backward();
  expect_near(values(x.grad()), values(5.0 * x.detach()), 1e-14);
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
  expect_near(values(second), values(6.0 * x.detach()), 1e-13);
  EXPECT_THROW(grad({second.sum()}, {x}), NotImplementedError);
}

// Every row of backends/functors/ is there by its name, with the op's values and both derivatives.
#define WEFT_COMPARE_UNARY(name, Functor, kind, low, high, ...)                             \
  TEST(MapUnary, name) {                                                                    \
    const std::vector<Tensor> x = {leaf({40}, 7, low, high)};                               \
    const auto f = [](Inputs t) { return map([](auto v) { return name(v); }, t[0]); };      \
    expect_near(values(f(x)), values(weft::name(x[0])), 1e-13);                             \
    const Tensor x32 = x[0].detach().to(f32);                                               \
    expect_near(values(map([](auto v) { return name(v); }, x32)), values(name(x32)), 1e-6); \
    EXPECT_TRUE(gradcheck(f, x));                                                           \
    EXPECT_TRUE(gradgradcheck(f, x));                                                       \
  }
WEFT_UNARY_OPS(WEFT_COMPARE_UNARY)
#define WEFT_COMPARE_BINARY(name, Functor, kind, low_a, high_a, low_b, high_b, ...)                     \
  TEST(MapBinary, name) {                                                                               \
    const std::vector<Tensor> x = {leaf({40}, 7, low_a, high_a), leaf({40}, 8, low_b, high_b)};         \
    const auto f = [](Inputs t) { return map([](auto a, auto b) { return name(a, b); }, t[0], t[1]); }; \
    expect_near(values(f(x)), values(weft::name(x[0], x[1])), 1e-13);                                   \
    EXPECT_TRUE(gradcheck(f, x));                                                                       \
    EXPECT_TRUE(gradgradcheck(f, x));                                                                   \
  }
WEFT_BINARY_OPS(WEFT_COMPARE_BINARY)
#define WEFT_COMPARE_TERNARY(name, ...)                                                                       \
  TEST(MapTernary, name) {                                                                                    \
    const std::vector<Tensor> x = {leaf({40}, 7, -2, 2), leaf({40}, 8, -1.3, -0.3), leaf({40}, 9, 0.3, 1.3)}; \
    const auto f = [](Inputs t) {                                                                             \
      return map([](auto a, auto b, auto c) { return name(a, b, c); }, t[0], t[1], t[2]);                     \
    };                                                                                                        \
    expect_near(values(f(x)), values(weft::name(x[0], x[1], x[2])), 1e-13);                                   \
    EXPECT_TRUE(gradcheck(f, x));                                                                             \
    EXPECT_TRUE(gradgradcheck(f, x));                                                                         \
  }
WEFT_TERNARY_OPS(WEFT_COMPARE_TERNARY)

TEST(Map, TheFunctionsKeepTheirEdges) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor({-inf, -200.f, -1.f, -0.f, 0.f, 1e-30f, 1e-42f, 1.f, 100.f, inf, nan});
#define WEFT_COMPARE_EDGES(name)                                                                                \
  {                                                                                                             \
    for (DType t : {f32, f64}) {                                                                                \
      const Doubles in = values(x.to(t)), got = values(map([](auto v) { return name(v); }, x.to(t)));           \
      for (size_t i = 0; i < in.size(); ++i) {                                                                  \
        const double e = t == f32 ? std::name(static_cast<float>(in[i])) : std::name(in[i]);                    \
        if (std::isnan(e)) EXPECT_TRUE(std::isnan(got[i])) << #name << in[i] << " gives " << got[i];            \
        else if (std::isinf(e) || e == 0) EXPECT_EQ(got[i], e) << #name << in[i];                               \
        else EXPECT_NEAR(got[i], e, std::abs(e) * (t == f32 ? 4e-7 : 1e-15)) << #name << in[i];                 \
        EXPECT_EQ(std::signbit(got[i]) && !std::isnan(e), std::signbit(e) && !std::isnan(e)) << #name << in[i]; \
      }                                                                                                         \
    }                                                                                                           \
  }
  WEFT_COMPARE_EDGES(exp)
  WEFT_COMPARE_EDGES(expm1)
  WEFT_COMPARE_EDGES(log)
  WEFT_COMPARE_EDGES(log1p)
  WEFT_COMPARE_EDGES(tanh)
  WEFT_COMPARE_EDGES(sqrt)
  WEFT_COMPARE_EDGES(floor)
  WEFT_COMPARE_EDGES(ceil)
  WEFT_COMPARE_EDGES(trunc)
}

TEST(Map, RootsAndWholePartsOfEverySize) {
  std::vector<double> numbers = {0.3,       -0.3,       0.5,      -0.5,  1.5,    -2.5,
                                 8388607.5, -8388607.5, 8388609., 1e300, 5e-324, 4.9e-310};
  for (int e = -1070; e < 1020; e += 7) numbers.push_back(std::ldexp(1.2345678912345 + e * 1e-4, e));
  for (DType t : {f32, f64}) {
    const Tensor x = tensor(numbers).to(t);
    const Doubles in = values(x), roots = values(map([](auto v) { return sqrt(v); }, x));
    const Doubles floors = values(map([](auto v) { return floor(v); }, x));
    const Doubles ceils = values(map([](auto v) { return ceil(v); }, x));
    const Doubles truncs = values(map([](auto v) { return trunc(v); }, x));
    for (size_t i = 0; i < in.size(); ++i) {
      const double root = t == f32 ? std::sqrt(static_cast<float>(in[i])) : std::sqrt(in[i]);
      if (std::isinf(in[i]) && in[i] > 0) {
        EXPECT_EQ(roots[i], root);
      } else if (in[i] >= 0) {
        EXPECT_NEAR(roots[i], root, root * (t == f32 ? 0x1p-23 : 0x1p-52)) << in[i];
      }
      EXPECT_EQ(floors[i], std::floor(in[i]));
      EXPECT_EQ(ceils[i], std::ceil(in[i]));
      EXPECT_EQ(truncs[i], std::trunc(in[i]));
    }
  }
}

// The distance to the function in double precision, in units of the last place of the float result.
template <class F>
double worst_ulp(F function, double (*exact)(double), double low, double high) {
  const int64_t n = 200001;
  const Tensor x = linspace(low, high, n).to(f32), y = map(function, x);
  const float *in = x.data<float>(), *out = y.data<float>();
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double e = exact(in[i]);
    if (e == 0) continue;
    const float near = std::abs(static_cast<float>(e));
    const double ulp = static_cast<double>(std::nextafter(near, std::numeric_limits<float>::infinity())) - near;
    worst = std::max(worst, std::abs(out[i] - e) / ulp);
  }
  return worst;
}
TEST(Map, TheFunctionsAreWithinTwoUlp) {
  EXPECT_LT(worst_ulp([](auto x) { return exp(x); }, std::exp, -87, 88), 2);
  EXPECT_LT(worst_ulp([](auto x) { return expm1(x); }, std::expm1, -20, 88), 2);
  EXPECT_LT(worst_ulp([](auto x) { return tanh(x); }, std::tanh, -10, 10), 2);
  EXPECT_LT(worst_ulp([](auto x) { return log(x); }, std::log, 1e-3, 50), 2);
  EXPECT_LT(worst_ulp([](auto x) { return log1p(x); }, std::log1p, -0.999, 50), 2);
  EXPECT_LT(worst_ulp([](auto x) { return sqrt(x); }, std::sqrt, 1e-3, 1000), 0.51);
}

TEST(Map, WhatDoesNotDependOnAnInputHasNoShareInItsInfinities) {
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
    expect_near(values(wa), values(a64.grad()), relative);
    expect_near(values(wb), values(b64.grad()), relative);
  }
}

TEST(Map, NotesWritesToWhatItSaved) {
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
