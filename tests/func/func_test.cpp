#include <gmock/gmock.h>

#include <weft/func/func.hpp>

#include <weft/ops/matmul.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/search.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/softmax.hpp>

#include "../message_of.hpp"
#include "../ops/values.hpp"

namespace weft::testing {
namespace {

using Tensors = std::vector<Tensor>;
using ::testing::HasSubstr;

Tensor cube(const Tensor& x) { return (x * x * x).sum(); }

TEST(Vjp, TakesCotangentsBackAsOftenAsItIsCalled) {
  const Tensor x = spread({3}), y = spread({3}, 1);
  const func::Vjp pull = func::vjp([](const Tensor& a, const Tensor& b) { return a * sin(b); }, {x, y});
  EXPECT_FALSE(pull.outputs[0].requires_grad());
  for (const uint64_t seed : {2, 3}) {
    const Tensor v = spread({3}, seed);
    const Tensors g = pull({v});
    expect_values(g[0], values(v * sin(y)));
    expect_values(g[1], values(v * x * cos(y)));
  }
  EXPECT_THROW(pull({spread({2})}), ShapeError);
  EXPECT_THROW(pull({}), ValueError);
}

TEST(Vjp, LeavesTheInputsAndAuxAlone) {
  const Tensor x = spread({3});
  const func::Vjp pull = func::vjp([](const Tensor& a) { return func::Outputs({a * a}, {a + 1}); }, {x});
  expect_values(pull.aux[0], values(x + 1));
  EXPECT_FALSE(pull.aux[0].requires_grad());
  EXPECT_FALSE(x.requires_grad());
}

TEST(Jvp, IsTheJacobianTimesTheTangent) {
  const Tensor x = spread({4}), w = spread({3, 4}, 1), v = spread({4}, 2);
  const auto f = [&](const Tensor& a) { return tanh(mv(w, a)); };
  const func::Jvp along = func::jvp(f, {x}, {v});
  const Tensor slopes = func::jacobian(f, {x})[0][0];
  expect_values(along.outputs[0], values(f(x)));
  expect_values(along.tangents[0], values(mv(slopes, v)));
  EXPECT_THROW(func::jvp(f, {x}, {spread({3})}), ShapeError);
}

TEST(Jvp, IndependentOutputsHaveZeroTangentsUnlessStrict) {
  const Tensor x = spread({2});
  const auto f = [](const Tensor&) { return ones({3}, f64); };
  expect_values(func::jvp(f, {x}, {x}).tangents[0], {0, 0, 0});
  EXPECT_THROW(func::jvp(f, {x}, {x}, {.strict = true}), AutogradError);
}

TEST(Jacobian, IsTheSameByBothSides) {
  const Tensor x = spread({2, 3}), y = spread({2}, 1);
  const auto f = [](const Tensor& a, const Tensor& b) { return Tensors{exp(a).sum({1}) * b, a.t() * b}; };
  const auto reverse = func::jacobian(f, {x, y}, {.mode = func::JacobianMode::reverse});
  const auto forward = func::jacobian(f, {x, y}, {.mode = func::JacobianMode::forward});
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 2; ++j) expect_values(forward[i][j], values(reverse[i][j]));
  }
  EXPECT_EQ(reverse[1][0].shape(), (Dims{3, 2, 2, 3}));
  expect_values(reverse[0][1], {exp(x).sum({1}).to_vector<double>()[0], 0, 0, exp(x).sum({1}).to_vector<double>()[1]});
}

TEST(Jacobian, OfNoElementsAndNumbersHasTheirShapes) {
  const auto f = [](const Tensor& a) { return a * 2.0; };
  EXPECT_EQ(func::jacobian(f, {zeros({0, 2}, f64)})[0][0].shape(), (Dims{0, 2, 0, 2}));
  expect_values(func::jacobian(f, {doubles({3}).squeeze()})[0][0], {2});
}

TEST(Jacobian, IsStrictWhereAsked) {
  const auto f = [](const Tensor& a, const Tensor& b) { return Tensors{a, a * b}; };
  const Tensors x = {spread({2}), spread({2}, 1)};
  expect_values(func::jacobian(f, x)[0][1], {0, 0, 0, 0});
  EXPECT_THROW(func::jacobian(f, x, {.strict = true}), AutogradError);
}

TEST(Hessian, HasEverySecondDerivative) {
  const Tensor x = spread({3}), y = spread({2}, 1);
  const auto f = [](const Tensor& a, const Tensor& b) { return (a * a * a).sum() * b.sum() + (b * b).sum(); };
  const auto h = func::hessian(f, {x, y});
  const double total = y.sum().item<double>();
  const Doubles xs = values(x);
  expect_values(h[0][0], {6 * xs[0] * total, 0, 0, 0, 6 * xs[1] * total, 0, 0, 0, 6 * xs[2] * total});
  expect_values(h[1][1], {2, 0, 0, 2});
  expect_values(h[0][1], values(h[1][0].t()));
  EXPECT_THROW(func::hessian([](const Tensor& a) { return a; }, {x}), ShapeError);
}

TEST(Hessian, OfALinearFunctionIsZero) {
  expect_values(func::hessian([](const Tensor& a) { return a.sum(); }, {spread({2})})[0][0], {0, 0, 0, 0});
}

TEST(Hvp, IsTheHessianTimesTheDirection) {
  const Tensor x = spread({4}), v = spread({4}, 1);
  const auto f = [](const Tensor& a) { return (exp(a) * a.sum()).sum(); };
  const func::Hvp product = func::hvp(f, {x}, {v});
  expect_values(product.products[0], values(mv(func::hessian(f, {x})[0][0], v)), 1e-10);
  expect_values(product.output, values(f(x)));
}

TEST(Grad, MayBeNested) {
  const Tensor x = spread({3});
  const auto first = func::grad(cube);
  expect_values(first(x), values(3.0 * x * x));
  expect_values(func::grad([&](const Tensor& a) { return first(a).sum(); })(x), values(6.0 * x));
  const auto second = func::grad([&](const Tensor& a) { return first(a).sum(); });
  expect_values(func::grad([&](const Tensor& a) { return second(a).sum(); })(x), {6, 6, 6});
}

TEST(Grad, NamesTheArgumentsThatItDifferentiates) {
  const auto f = [](const Tensor& a, const Tensor& b) { return (a * b * b).sum(); };
  const Tensor x = spread({2}), y = spread({2}, 1);
  const Tensors both = func::grad_and_value(f, {0, -1})(std::span<const Tensor>(Tensors{x, y})).tensors;
  expect_values(both[0], values(f(x, y)));
  expect_values(both[1], values(y * y));
  expect_values(both[2], values(2.0 * x * y));
  EXPECT_THROW(func::grad(f, {2})({x, y}), IndexError);
  EXPECT_THROW(func::grad(f)({x}), ValueError);
}

TEST(Grad, FlowsOnToInputsThatRequireOne) {
  const Tensor x = leaf({3});
  const Tensor slope = func::grad(cube)(x);
  slope.sum().backward();
  expect_values(x.grad(), values(6.0 * x.detach()));
  EXPECT_FALSE(func::grad(cube)(x.detach()).requires_grad());
}

TEST(Grad, RefusesIntegersAndNamesTheLine) {
  const std::string text =
      message_of<ShapeError>([] { func::grad([](const Tensor& a) { return a * a; })(spread({2})); });
  EXPECT_THAT(text, HasSubstr("func_test.cpp"));
  EXPECT_THROW(func::grad(cube)(ones({2}, i64)), DTypeError);
  EXPECT_THROW(func::grad(cube)(Tensor()), ValueError);
}

TEST(Grad, WorksUnderNoGrad) {
  const NoGradGuard off;
  const Tensor x = spread({3});
  expect_values(func::grad(cube)(x), values(3.0 * x * x));
}

// ---- vmap -----------------------------------------------------------------------------------------------------------

TEST(Vmap, StacksResultsOfExamples) {
  const Tensor x = spread({4, 3}), w = spread({3}, 1);
  const auto f = [](const Tensor& a, const Tensor& b) { return dot(a, b); };
  expect_values(func::vmap(f, {.in_dims = {0, std::nullopt}})({x, w}), values(mv(x, w)));
  expect_values(func::vmap(f, {.in_dims = {1, std::nullopt}})({x.t(), w}), values(mv(x, w)));
}

TEST(Vmap, PutsExamplesWhereOutDimsSay) {
  const Tensor x = spread({4, 3});
  const auto doubled = [](const Tensor& a) { return 2.0 * a; };
  expect_values(func::vmap(doubled, {.out_dims = {1}})(x).t(), values(2.0 * x));
  EXPECT_EQ(func::vmap(doubled, {.out_dims = {-1}})(x).shape(), (Dims{3, 4}));
}

TEST(Vmap, PutsTheExamplesOfAuxWhereOutDimsSay) {
  const Tensor x = spread({4, 3});
  // At once, example by example, and without examples.
  const Tensor inputs[] = {x, x.detach().requires_grad_(), zeros({0, 3})};
  const auto both = [](const Tensor& a) { return func::Outputs({2.0 * a}, {a + 1, a.sum()}); };
  const auto shapes = [&](const Tensor& input, const std::vector<int>& out_dims) {
    const func::Outputs out = func::vmap(both, {.out_dims = out_dims})(std::span(&input, 1));
    return std::vector<Dims>{out.tensors[0].shape(), out.aux[0].shape(), out.aux[1].shape()};
  };
  for (const Tensor& input : inputs) {
    const int64_t n = input.size(0);
    EXPECT_EQ(shapes(input, {0}), (std::vector<Dims>{{n, 3}, {n, 3}, {n}}));
    EXPECT_EQ(shapes(input, {-1}), (std::vector<Dims>{{3, n}, {3, n}, {n}}));
    EXPECT_EQ(shapes(input, {0, 1, 0}), (std::vector<Dims>{{n, 3}, {3, n}, {n}}));
    EXPECT_THROW(shapes(input, {1}), IndexError);  // the second aux has one dimension alone
    EXPECT_THROW(shapes(input, {1, 0}), ValueError);
  }
  const Tensor aux = func::vmap(both, {.out_dims = {0, 1, 0}})(std::span(&x, 1)).aux[0];
  expect_values(aux.t(), values(x + 1));
}

TEST(Vmap, MayBeNested) {
  const Tensor x = spread({2, 3}), y = spread({4, 3}, 1);
  const auto inner = [&](const Tensor& a) { return func::vmap([&](const Tensor& b) { return dot(a, b); })(y); };
  expect_values(func::vmap(inner)(x), values(matmul(x, y.t())));
}

TEST(Vmap, OfGradGivesAGradientForEachExample) {
  const Tensor x = spread({5, 3}), w = spread({3, 2}, 1), labels = randint(0, 2, {5}, {.dtype = i64});
  const auto loss = [](const Tensor& weight, const Tensor& row, const Tensor& label) {
    return -log_softmax(matmul(row, weight), -1).gather(-1, label.reshape({1})).sum();
  };
  const Tensor each = func::vmap(func::grad(loss), {.in_dims = {std::nullopt, 0, 0}})({w, x, labels});
  ASSERT_EQ(each.shape(), (Dims{5, 3, 2}));
  const Tensor scores = softmax(matmul(x, w), -1) - one_hot(labels, 2).to(f64);
  expect_values(each, values(x.unsqueeze(2) * scores.unsqueeze(1)));
}

TEST(Vmap, HasGradientsOfItsOwn) {
  const Tensor x = leaf({4, 3}), w = leaf({3}, 1);
  const auto f = [](Inputs v) {
    return func::vmap([](const Tensor& a, const Tensor& b) { return (a * b).exp(); },
                      {.in_dims = {0, std::nullopt}})({v[0], v[1]});
  };
  expect_gradients(f, {x, w});
}

TEST(Vmap, RandomOpsFollowTheOption) {
  const Tensor x = ones({3, 2});
  const auto noisy = [](const Tensor& a) { return a + randn({2}); };
  EXPECT_THAT(message_of<ValueError>([&] { func::vmap(noisy)(x); }), HasSubstr("draws random numbers"));
  manual_seed(1);
  const Tensor same = func::vmap(noisy, {.randomness = func::Randomness::same})(x);
  EXPECT_TRUE(equal(same.select(0, 0), same.select(0, 2)));
  manual_seed(1);
  const Tensor different = func::vmap(noisy, {.randomness = func::Randomness::different})(x);
  EXPECT_TRUE(equal(different.select(0, 0), same.select(0, 0)));
  EXPECT_FALSE(equal(different.select(0, 0), different.select(0, 1)));
}

TEST(Vmap, RejectsInputsWithoutExampleDimension) {
  const auto f = [](const Tensor& a) { return a; };
  EXPECT_EQ(func::vmap(f)(ones({0, 2})).shape(), Dims({0, 2}));
  EXPECT_THROW(func::vmap(f)(ones({})), IndexError);
  EXPECT_THROW(func::vmap(f, {.in_dims = {2}})(ones({2, 2})), IndexError);
  EXPECT_THROW(func::vmap(f, {.in_dims = {std::nullopt}})(ones({2})), ValueError);
  EXPECT_THROW(func::vmap(f, {.in_dims = {0, 0}})(ones({2})), ValueError);
  const auto g = [](const Tensor& a, const Tensor& b) { return a + b; };
  EXPECT_THAT(message_of<ValueError>([&] { func::vmap(g)({ones({2}), ones({3})}); }), HasSubstr("3 examples"));
}

}  // namespace
}  // namespace weft::testing
