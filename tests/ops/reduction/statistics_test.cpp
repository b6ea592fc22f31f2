// Statistics, histograms, differences and running products: errors and edges.
#include <weft/ops/statistics.hpp>

#include <weft/autograd/engine.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/differences.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/scan.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

constexpr int64_t huge = int64_t{1} << 62;

TEST(NanSum, PassesOverNaN) {
  expect_values(nansum(doubles({nan, 1, 2, nan}, {2, 2}), {1}), {1, 2});
  expect_values(nanmean(doubles({nan, 1, nan, nan}, {2, 2}), {1}), {1, nan});
  EXPECT_EQ(nansum(zeros({2}, u8)).dtype(), i64);
  EXPECT_THROW(nanmean(zeros({2}, i32)), DTypeError);
  const Tensor half = full({100000}, 3, f16);
  EXPECT_EQ(nanmean(half).item<float>(), 3);
}

TEST(Aminmax, TakesBool) {
  const auto [least, most] = aminmax(tensor({true, false}));
  EXPECT_FALSE(least.item<bool>());
  EXPECT_TRUE(most.item<bool>());
  EXPECT_THROW(aminmax(zeros({0})), ValueError);
  EXPECT_THROW(aminmax(zeros({2}), 1), IndexError);
}

TEST(Diff, StopsAtNoElements) {
  EXPECT_EQ(diff(zeros({2, 3}), huge).shape(), Dims({2, 0}));
  EXPECT_EQ(diff(zeros({0})).shape(), Dims(0));
  expect_values(diff(tensor({true, true, false})), {0, 1});
  expect_values(diff(tensor({1, 2, 4}), 1, 0, tensor({0.5})), {0.5, 1, 2});
  EXPECT_THROW(diff(tensor(1.)), ShapeError);
  EXPECT_THROW(diff(zeros({2}), -1), ValueError);
  EXPECT_THROW(diff(zeros({2, 2}), 1, 0, zeros({2})), ShapeError);
}

TEST(Diff, NeverReturnsItsInput) {
  const Tensor x = zeros({3});
  EXPECT_FALSE(diff(x, 0).shares_storage(x));
}

TEST(Trapezoid, RefusesBoolAndPointsThatDoNotFit) {
  EXPECT_THROW(trapezoid(zeros({2}, boolean)), DTypeError);
  EXPECT_THROW(trapezoid(zeros({2}), zeros({2}, boolean)), DTypeError);
  EXPECT_THROW(trapezoid(zeros({2}), zeros({3})), ShapeError);
  EXPECT_THROW(trapezoid(tensor(1.)), ShapeError);
  EXPECT_EQ(trapezoid(zeros({0}, i64)).dtype(), i64);
}

TEST(Cov, RefusesWeightsThatAreNone) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(cov(x, 1, tensor({1., 1., 1.})), DTypeError);
  EXPECT_THROW(cov(x, 1, tensor({1, 1})), ShapeError);
  EXPECT_THROW(cov(x, 1, tensor({1, -1, 1})), ValueError);
  EXPECT_THROW(cov(x, 1, {}, tensor({1, 1, 1})), DTypeError);
  EXPECT_THROW(cov(zeros({2, 2, 2})), ShapeError);
  EXPECT_THROW(corrcoef(zeros({2}, boolean)), DTypeError);
}

TEST(Renorm, RefusesNegativeNorms) {
  EXPECT_THROW(renorm(zeros({2}), 2, 0, 1), ShapeError);
  EXPECT_THROW(renorm(zeros({2, 2}), 0, 0, 1), ValueError);
  EXPECT_THROW(renorm(zeros({2, 2}), 2, 0, nan), ValueError);
  expect_values(renorm(zeros({2, 2}), 2, 0, 0), {0, 0, 0, 0});
}

TEST(Histogram, CountsBetweenEdges) {
  const Tensor x = doubles({0, 0.5, 1, 1.5, 2, 2.5, nan});
  expect_values(histc(x, 2, 0, 2), {2, 3});
  expect_values(histogram(x, doubles({0, 1, 2})).hist, {2, 3});
  EXPECT_EQ(histc(full({100000}, 1, f32), 1, 0, 2).item<float>(), 100000);
  EXPECT_THROW(histc(x, 2), ValueError);
  EXPECT_THROW(histc(x, 0, 0, 1), ValueError);
  EXPECT_THROW(histc(x, std::numeric_limits<int64_t>::max(), 0, 1), Error);
  EXPECT_THROW(histogram(x, std::numeric_limits<int64_t>::max() - 1, {.range = {{0, 1}}}), Error);
  EXPECT_THROW(histc(x, huge, 0, 1), Error);
  EXPECT_THROW(histc(x, 2, 1, 0), ValueError);
  EXPECT_THROW(histc(zeros({2}, i64), 2), DTypeError);
  EXPECT_THROW(histogram(x, zeros({1}, f64)), ShapeError);
  EXPECT_THROW(histogram(x, zeros({2}, f32)), DTypeError);
  EXPECT_THROW(histogram(x, 2, {.range = {{0, infinity}}}), ValueError);
  EXPECT_THROW(histogram(x, 2, {.range = {{0, 1}}, .weight = zeros({2}, f64)}), ShapeError);
}

TEST(Cumprod, HasAnExactGradientAtZeros) {
  const Tensor x = doubles({2, 0, 3, 0, 5}).requires_grad_();
  cumprod(x, 0).backward(doubles({1, 1, 1, 1, 1}));
  expect_values(x.grad(), {1, 2 + 6, 0, 0, 0});
  EXPECT_EQ(cumprod(zeros({2}, u8), 0).dtype(), i64);
  EXPECT_THROW(cumprod(zeros({2}), 1), IndexError);
  EXPECT_THROW(cumprod(zeros({2}), 0, boolean), DTypeError);
}

TEST(Cummax, ReturnsTheLastOfEqualElementsAndKeepsNaN) {
  const auto [values, places] = cummax(doubles({1, 3, 3, nan, 5, nan}), 0);
  expect_values(values, {1, 3, 3, nan, nan, nan});
  expect_values(places, {0, 1, 2, 3, 3, 5});
  expect_values(cummin(doubles({1, 3, 1, -infinity}), 0).indices, {0, 0, 2, 3});
}

TEST(Logcumsumexp, KeepsItsPrecision) {
  expect_values(logcumsumexp(doubles({1000, 1000}), 0), {1000, 1000.6931471805599});
  expect_values(logcumsumexp(doubles({-infinity, -infinity, 0}), 0), {-infinity, -infinity, 0});
  EXPECT_THROW(logcumsumexp(zeros({2}, i64), 0), DTypeError);
}

}  // namespace
}  // namespace weft::testing
