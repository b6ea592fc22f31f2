// Pointwise functions that take more than their operands.
#include <fmt/format.h>

#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

TEST(Round, ToDecimals) {
  const Tensor x = doubles({1.2345, -0.05, 0.25, 1250, 1e300});
  expect_values(round(x, 2), {1.23, -0.05, 0.25, 1250, 1e300});
  expect_values(round(x, -2), {0, 0, 0, 1200, 1e300});
  expect_values(round(doubles({0.125, 0.375}), 2), {0.12, 0.38});
  expect_values(round(full({1}, 1e38, f32), 3), {static_cast<double>(1e38f)});
  expect_values(round(tensor({123, -7}), 3), {123, -7});
  EXPECT_THROW(round(tensor({123}), -1), DTypeError);
  const Tensor y = doubles({1.26});
  EXPECT_EQ(&round_(y, 1), &y);
  expect_values(y, {1.3});
  const Tensor z = leaf({3});
  sum(round(z, 1)).backward();
  expect_values(z.grad(), {0, 0, 0});
}

TEST(Pow, WithoutALogarithmIsAsCsPow) {
  for (const DType t : {f32, f64, f16, bf16, i32, u16}) {
    const Tensor x = (weft::rand({1000}) * 20.0 - 5.0).to(t), y = x.view({10, 100}).t();
    EXPECT_EQ(values(pow(x, 2)), values(x * x)) << name(t);
    EXPECT_EQ(values(pow(y, 2)), values(y * y)) << name(t);
    EXPECT_EQ(values(pow(x, 1)), values(x)) << name(t);
    EXPECT_EQ(values(pow(y, 1)), values(y)) << name(t);
    EXPECT_EQ(values(x.clone().pow_(1)), values(x)) << name(t);
    EXPECT_EQ(values(x.clone().pow_(2)), values(x * x)) << name(t);
  }
  for (const double exponent : {-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0}) {  // those that need no logarithm
    const Tensor special = doubles({0.0, -0.0, infinity, -infinity, nan, -3, 1e-310, 1e200, 2.5});
    for (const DType t : {f64, f32}) {
      const Tensor base = special.to(t), power = pow(base, exponent);
      for (int64_t i = 0; i < base.numel(); ++i) {
        const double x = base.select(0, i).item<double>(), want = full({}, std::pow(x, exponent), t).item<double>();
        const double got = power.select(0, i).item<double>();
        SCOPED_TRACE(fmt::format("{} to the power {}", x, exponent));
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(got));
        } else if (want == 0 || std::isinf(want)) {
          EXPECT_EQ(got, want);
          EXPECT_EQ(std::signbit(got), std::signbit(want));
        } else {
          EXPECT_NEAR(got / want, 1, 3e-7);
        }
      }
    }
    expect_gradients([=](Inputs in) { return pow(square(in[0]) + 0.5, exponent); }, {leaf({2, 3})});
  }
  EXPECT_EQ(pow(tensor({true, false}), 2).dtype(), i64);
  expect_values(pow(doubles({-0.0, infinity, -infinity}), 2), {0, infinity, infinity});
  expect_gradients([](Inputs in) { return pow(in[0], 2) + pow(in[0], 1); }, {leaf({2, 3})});
}

TEST(Softplus, IsSteeperByBetaAndALineAboveTheThreshold) {
  const Tensor x = doubles({-1, 0.5, 3});
  const auto soft = [](double v, double beta) { return std::log1p(std::exp(beta * v)) / beta; };
  expect_values(softplus(x, 2), {soft(-1, 2), soft(0.5, 2), soft(3, 2)});
  expect_values(softplus(x, 2, 1.5), {soft(-1, 2), soft(0.5, 2), 3});
  expect_values(softplus(x, 1, 20), values(softplus(x)));
  expect_values(softplus(doubles({1000, -1000}), 2), {1000, 0});
  EXPECT_EQ(softplus(tensor({1, 2}), 2).dtype(), f32);
  EXPECT_EQ(softplus(ones({2}, f16), 2).dtype(), f16);
  expect_gradients([](Inputs in) { return softplus(in[0], 2.5, 1); }, {leaf({2, 4})});
}

TEST(Add, TakesAMultipleOfItsSecondOperand) {
  expect_values(add(doubles({1, 2}), doubles({3, 4}), -0.5), {-0.5, 0});
  expect_values(doubles({1, 2}).sub(doubles({3, 4}), 2), {-5, -6});
  expect_values(add(doubles({1}), tensor({3}), 0.1), {1 + 3 * 0.1});  // the product is as wide as the sum
  const Tensor y = doubles({1});
  expect_values(y.add_(tensor({3}), 0.1), {1 + 3 * 0.1});
  expect_values(add(tensor({1, 2}), tensor({3, 4}), 3), {10, 14});
  expect_values(sub(tensor({1}).to(u8), tensor({2}).to(u8), 2), {253});
  expect_values(add(tensor({1, 0}).to(boolean), tensor({0, 1}).to(boolean), true), {1, 1});
  EXPECT_THROW(add(tensor({1}), tensor({2}), 0.5), DTypeError);
  EXPECT_THROW(tensor({1}).sub_(tensor({2}), 0.5), DTypeError);
  const Tensor half = full({1}, 9.0, f16);  // 1 + 0.3333 * 9 rounded once
  EXPECT_EQ(add(ones({1}, f16), half, 0.3333).item<float>(), 4);
  expect_gradients([](Inputs in) { return add(in[0], square(in[1]), 1.5); }, {leaf({2, 3}, 1), leaf({3}, 2)});
  expect_gradients([](Inputs in) { return sub(in[0], square(in[1]), 1.5); }, {leaf({2, 3}, 1), leaf({3}, 2)});
}

TEST(Addcmul, ScalesTheProduct) {
  expect_values(addcmul(doubles({1, 2}), doubles({3, 4}), 2, -0.5), {-2, -2});
  expect_values(addcmul(tensor({1, 2}), tensor({3, 4}), tensor({1, 1}), 3), {10, 14});
  EXPECT_EQ(addcmul(tensor({1, 2}), tensor({3, 4}), tensor({1, 1}), 3).dtype(), i64);
  EXPECT_THROW(addcmul(tensor({1, 2}), tensor({3, 4}), tensor({1, 1}), 0.5), DTypeError);
  const Tensor half = full({1}, 3.0, f16);  // 1 + 0.3333 * 9 rounded once
  EXPECT_EQ(addcmul(ones({1}, f16), half, half, 0.3333).item<float>(), 4);
  expect_gradients([](Inputs in) { return addcmul(in[0], in[1], square(in[2]), 1.5); },
                   {leaf({2, 3}, 1), leaf({3}, 2), leaf({2, 1}, 3)});
}

}  // namespace
}  // namespace weft::testing
