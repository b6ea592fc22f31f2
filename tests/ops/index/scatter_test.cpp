// Writing and combining elements that an index moves along one dimension.
#include <weft/ops/scatter.hpp>

#include <algorithm>
#include <cmath>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

using enum ScatterReduction;
constexpr ScatterReduction all_reductions[] = {sum, prod, mean, amax, amin};

TEST(Scatter, PutsElementsAndTheLastWins) {
  const Tensor x = zeros({3, 2}, f64);
  expect_values(scatter(x, 0, tensor({{0, 2}, {2, 2}}), doubles({1, 2, 3, 4}, {2, 2})), {1, 0, 0, 0, 3, 4});
  expect_values(scatter(x, 1, tensor({{1}, {0}}), doubles({1, 2, 3, 4}, {2, 2})), {0, 1, 3, 0, 0, 0});
  expect_values(scatter(x, 1, tensor({{1, 1}}), doubles({1, 2}, {1, 2})), {0, 2, 0, 0, 0, 0});
  expect_values(scatter(x.t(), 1, tensor({{2, 0}}), doubles({1, 2}, {1, 2})), {2, 0, 1, 0, 0, 0});
  expect_values(scatter(doubles({1}, {}), 0, tensor(0), doubles({2}, {})), {2});
  expect_values(scatter(x, 0, zeros({0, 2}, i64), zeros({0, 2}, f64)), values(x));
  for (const DType t : {boolean, u8, i8, i16, i32, i64, f16, bf16, f32, f64}) {
    expect_values(scatter(tensor({1, 0, 0}).to(t), 0, tensor({2, 0}).to(i32), tensor({1, 0}).to(t)), {0, 0, 1});
  }
}

TEST(Scatter, TakesOneValueForEveryPlace) {
  const Tensor x = zeros({2, 2}, f64);
  expect_values(scatter(x, 1, tensor({{0}, {1}}), 3), {3, 0, 0, 3});
  expect_values(scatter(x, 1, tensor({{0}, {1}}), doubles({.5}, {})), {.5, 0, 0, .5});
  EXPECT_EQ(scatter(tensor({1, 2}), 0, tensor({0}), int64_t{9007199254740993}).to_vector<int64_t>()[0],
            9007199254740993);
  EXPECT_EQ(scatter(ones({2}, bf16), 0, tensor({0}), 2.5).dtype(), bf16);
  const Tensor value = leaf({});
  scatter(x, 1, tensor({{0}, {1}}), value).backward(doubles({1, 10, 100, 1000}, {2, 2}));
  expect_values(value.grad(), {1001});
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * in[0];
        scatter_(y, 0, tensor({{0, 0}, {0, 1}}), square(in[1]));
        return y * scatter(in[0], 1, tensor({{1, 1}}), in[1]);
      },
      {leaf({2, 2}), leaf({}, 1)});
}

TEST(Scatter, GradientsOfBothOperands) {
  const Tensor x = doubles({nan, 1, 2}).requires_grad_(), source = leaf({4});
  scatter(x, 0, tensor({0, 0, 2}), source).backward(doubles({1, 10, 100}));
  expect_values(x.grad(), {0, 10, 0});
  expect_values(source.grad(), {0, 1, 100, 0});
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * in[0];
        scatter_(y.t(), 0, tensor({{2, 0}, {1, 1}}), square(in[1]));
        return y * y;
      },
      {leaf({2, 3}), leaf({2, 2}, 1)});
}

TEST(Scatter, InPlaceAndErrors) {
  const Tensor x = doubles({1, 2, 3});
  EXPECT_EQ(&scatter_(x, 0, tensor({2, 1, 0}), x), &x);
  expect_values(x, {3, 2, 1});
  const uint32_t version = x.version();
  EXPECT_THROW(scatter_(x, 0, tensor({0, 3}), doubles({1, 1})), IndexError);
  EXPECT_THROW(scatter_(x, 0, tensor({0, 1}), doubles({1})), ShapeError);
  EXPECT_THROW(scatter_(x, 0, tensor({{0}}), doubles({1})), ShapeError);
  EXPECT_THROW(scatter_(x, 0, tensor({0}), ones({1})), DTypeError);
  EXPECT_THROW(scatter_(x, 0, tensor({0.}), doubles({1})), DTypeError);
  EXPECT_THROW(scatter_(x, 0, tensor({3}), 1), IndexError);
  EXPECT_THROW(scatter_(x, 1, tensor({0}), 1), IndexError);
  EXPECT_THROW(scatter_(x.expand({2, 3}), 0, tensor({{0}}), 1), ValueError);
  EXPECT_THROW(scatter_(leaf({3}), 0, tensor({0}), 1), AutogradError);
  EXPECT_THROW(scatter(x, 0, Tensor(), 1), ValueError);
  expect_values(x, {3, 2, 1});
  EXPECT_EQ(x.version(), version);
}

// As PyTorch has it: no index moves nothing, whatever its rank.
TEST(Scatter, AnIndexWithoutElementsMayHaveAnyRank) {
  const Tensor x = tensor({{1., 2.}, {3., 4.}}).requires_grad_(), none = zeros({0}, i64);
  const Tensor gathered = gather(x, 1, none);
  EXPECT_EQ(gathered.shape(), Dims(0));
  EXPECT_EQ(gather(x, 0, zeros({2, 0, 3}, i64)).shape(), Dims({2, 0, 3}));
  gathered.sum().backward();
  expect_values(x.grad(), {0, 0, 0, 0});
  expect_values(scatter_add(x, 0, none, zeros({3})), {1, 2, 3, 4});
  expect_values(scatter(x, 1, none, 7), {1, 2, 3, 4});
  expect_values(scatter_(x.detach(), 1, none, zeros({0})), {1, 2, 3, 4});
  EXPECT_THROW(gather(x, 1, zeros({1}, i64)), ShapeError);
  EXPECT_THROW(gather(x, 2, none), IndexError);
}

TEST(TakeAlongDim, WithoutADimensionIsFlat) {
  const Tensor x = doubles({3, 1, 2, 0}, {2, 2});
  expect_values(take_along_dim(x, tensor({{3, 0}, {1, -2}})), {0, 3, 1, 2});
  expect_values(take_along_dim(x.t(), tensor({1})), {2});
  try {
    take_along_dim(x, tensor({{0, 2}}), 1);
    ADD_FAILURE();
  } catch (const IndexError& e) {
    EXPECT_NE(std::string(e.what()).find("[take_along_dim] index 2"), std::string::npos) << e.what();
  }
}

// One line of scatter_reduce by a loop.
Doubles reduced(Doubles x, const std::vector<int64_t>& index, const Doubles& source, ScatterReduction how, bool self) {
  std::vector<int> count(x.size(), self ? 1 : 0);
  for (size_t i = 0; i < index.size(); ++i) {
    const auto at = static_cast<size_t>(index[i]);
    double& y = x[at];
    if (count[at]++ == 0) y = source[i];
    else if (how == prod) y *= source[i];
    else if (how == amax) y = std::max(y, source[i]);
    else if (how == amin) y = std::min(y, source[i]);
    else y += source[i];
  }
  for (size_t i = 0; how == mean && i < x.size(); ++i) x[i] /= std::max(count[i], 1);
  return x;
}

TEST(ScatterReduce, ValuesAreThoseOfALoop) {
  const Tensor x = spread({5}, 1), source = spread({9}, 2);
  const std::vector<int64_t> index = {0, 3, 3, 1, 0, 3, 1, 4, 4};
  for (const ScatterReduction how : all_reductions) {
    for (const bool self : {true, false}) {
      const Doubles expected = reduced(values(x), index, values(source), how, self);
      expect_values(scatter_reduce(x, 0, tensor(index), source, how, self), expected);
      const Tensor y = x.clone();
      scatter_reduce_(y, 0, tensor(index), source, how, self);
      expect_values(y, expected);
    }
  }
}

TEST(ScatterReduce, AlongInnerDimensionsAndStrides) {
  const Tensor x = spread({2, 3}, 1).t(), source = spread({2, 4}, 2).t();
  const Tensor index = tensor({{0, 2, 2, 1}, {1, 1, 1, 2}}).t();
  for (const ScatterReduction how : all_reductions) {
    for (const bool self : {true, false}) {
      const Tensor out = scatter_reduce(x, 0, index, source, how, self);
      expect_values(out.select(1, 0),
                    reduced(values(x.select(1, 0)), {0, 2, 2, 1}, values(source.select(1, 0)), how, self));
      expect_values(out.select(1, 1),
                    reduced(values(x.select(1, 1)), {1, 1, 1, 2}, values(source.select(1, 1)), how, self));
      expect_values(scatter_reduce(x.t(), 1, index.t(), source.t(), how, self).t(), values(out));
    }
  }
}

TEST(ScatterReduce, Integers) {
  const Tensor x = tensor({10, -7, 1}), index = tensor({0, 1, 0, 1}), source = tensor({3, 2, -4, -3});
  expect_values(scatter_reduce(x, 0, index, source, mean), {3, -3, 1});
  expect_values(scatter_reduce(x, 0, index, source, mean, false), {-1, -1, 1});
  expect_values(scatter_reduce(x, 0, index, source, amax, false), {3, 2, 1});
  expect_values(scatter_reduce(x.to(i8), 0, index, source.to(i8), amin, false), {-4, -3, 1});
  expect_values(scatter_reduce(x, 0, index, source, prod), {-120, 42, 1});
  EXPECT_EQ(scatter_reduce(x.to(i8), 0, index, source.to(i8), mean).dtype(), i8);
  const int64_t big = int64_t{1} << 62;
  EXPECT_EQ(scatter_reduce(zeros({1}, i64), 0, tensor({0, 0}), tensor({big - 1, big - 3}), mean, false)
                .to_vector<int64_t>()[0],
            big - 2);
  expect_values(scatter_reduce(tensor({200, 1}).to(u8), 0, tensor({0, 0}), tensor({7, 9}).to(u8), amax, false), {9, 1});
}

TEST(ScatterReduce, HalfPrecision) {
  for (const DType t : {f16, bf16}) {
    const Tensor big = ones({4096}, t);
    expect_values(scatter_reduce(zeros({2}, t), 0, zeros({4096}, i64), big, mean, false), {1, 0});
    expect_values(scatter_reduce(zeros({1}, t), 0, zeros({4096}, i64), big, sum), {4096});
    expect_values(scatter_reduce(ones({2}, t), 0, tensor({0}), (-big).narrow(0, 0, 1), amax, false), {-1, 1});
  }
}

TEST(ScatterReduce, NaNStaysWhereItBelongs) {
  const Tensor x = doubles({nan, 1, 2}), index = tensor({1, 1}), source = doubles({nan, 3});
  for (const ScatterReduction how : all_reductions) {
    expect_values(scatter_reduce(x, 0, index, source, how), {nan, nan, 2});
    const Tensor a = x.clone().requires_grad_(), b = doubles({4, 3}).requires_grad_();
    scatter_reduce(a, 0, index, b, how).backward(ones({3}, f64));
    const Doubles g = values(a.grad());
    EXPECT_EQ(g[0], 1) << static_cast<int>(how);
    EXPECT_EQ(g[2], 1);
    EXPECT_TRUE(std::isfinite(g[1]));
  }
}

TEST(ScatterReduce, EqualExtremesShareTheGradient) {
  const Tensor index = tensor({0, 0, 0, 1});
  for (const ScatterReduction how : {amax, amin}) {
    const double sign = how == amax ? 1 : -1;
    const Tensor x = doubles({5 * sign, 7 * sign, 9}).requires_grad_();
    const Tensor source = doubles({5 * sign, 4 * sign, 5 * sign, 6 * sign}).requires_grad_();
    scatter_reduce(x, 0, index, source, how).backward(doubles({6, 10, 100}));
    expect_values(x.grad(), {2, 10, 100});
    expect_values(source.grad(), {2, 0, 2, 0});
    x.set_grad({}), source.set_grad({});
    scatter_reduce(x, 0, index, source, how, false).backward(doubles({6, 10, 100}));
    expect_values(x.grad(), {0, 0, 100});
    expect_values(source.grad(), {3, 0, 3, 10});
  }
}

TEST(ScatterReduce, ProductsWithZeros) {
  const Tensor x = doubles({2, 0, 3}).requires_grad_(), source = doubles({0, 5, 7, 0, 0}).requires_grad_();
  const Tensor index = tensor({0, 0, 1, 2, 2});
  scatter_reduce(x, 0, index, source, prod).backward(ones({3}, f64));
  expect_values(x.grad(), {0, 7, 0});
  expect_values(source.grad(), {10, 0, 0, 0, 0});
  source.set_grad({});
  scatter_reduce(x, 0, index, source, prod, false).backward(ones({3}, f64));
  expect_values(source.grad(), {5, 0, 1, 0, 0});
  const auto one_zero = [](Inputs in) { return scatter_reduce(in[0], 0, tensor({0, 0, 1}), in[1], prod); };
  expect_gradients(one_zero, {doubles({2, 3}).requires_grad_(), doubles({0, 5, 7}).requires_grad_()});
  const Tensor y = scatter_reduce(x, 0, index, source, prod);
  EXPECT_THROW(grad({y}, {source}, {ones({3}, f64)}, {.create_graph = true}), AutogradError);
}

TEST(ScatterReduce, Gradients) {
  const Tensor index = tensor({{0, 2, 2}, {1, 1, 2}, {2, 0, 2}, {0, 2, 1}});
  for (const ScatterReduction how : all_reductions) {
    for (const bool self : {true, false}) {
      expect_gradients(
          [&](Inputs in) {
            const Tensor y = in[0] * in[0];
            scatter_reduce_(y, 1, index, square(in[1]), how, self);
            return y * y;
          },
          {leaf({4, 3}, 0, 0.5, 2), leaf({5, 4}, 1, 0.5, 2)});
    }
  }
}

TEST(Scatter, CombinesWithTheExistingValue) {
  const Tensor x = doubles({1, 2, 3}), index = tensor({0, 2, 0});
  expect_values(scatter(x, 0, index, doubles({4, 5, 6}), sum), {11, 2, 8});
  expect_values(scatter(x, 0, index, 3, prod), {9, 2, 9});
  const Tensor y = x.clone();
  scatter_(y, 0, index, doubles({4, 5, 6}), prod);
  expect_values(y, {24, 2, 15});
  scatter_(y, 0, index, 1, sum);
  expect_values(y, {26, 2, 16});
  expect_gradients([&](Inputs in) { return square(scatter(in[0], 0, index, in[1], prod)); },
                   {leaf({3}, 1, 0.5, 2), leaf({3}, 2, 0.5, 2)});
  EXPECT_THROW(find_record("scatter")->call(Values{x, int64_t{0}, tensor({0}), doubles({1}), std::string("sum")}),
               ValueError);
}

TEST(ScatterReduce, Errors) {
  const Tensor x = doubles({1, 2});
  EXPECT_THROW(scatter_reduce_(x, 0, tensor({2}), doubles({1}), amax), IndexError);
  EXPECT_THROW(scatter_reduce_(x, 0, tensor({2}), doubles({1}), mean, false), IndexError);
  EXPECT_THROW(scatter_reduce_(x, 0, tensor({0}), ones({1}), sum), DTypeError);
  EXPECT_THROW(scatter_reduce_(x, 0, tensor({0, 1}), doubles({1}), sum), ShapeError);
  EXPECT_THROW(scatter_reduce_(leaf({2}), 0, tensor({0}), doubles({1}), sum), AutogradError);
  EXPECT_THROW(
      find_record("scatter_reduce")->call(Values{x, int64_t{0}, tensor({0}), doubles({1}), std::string("max")}),
      ValueError);
  expect_values(x, {1, 2});
}

}  // namespace
}  // namespace weft::testing
