// Activations and predicates beyond the record tests: errors, defaults, special numbers.
#include "ops/values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/weft.hpp>

namespace weft {
namespace {

using testing::spread;
using testing::values;
constexpr double infinity = __builtin_inf();

void expect_near(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.shape(), expected.shape());
  testing::expect_near(values(actual), values(expected), 1e-6);
}

TEST(Activations, HaveTheDefaultsOfPyTorch) {
  const Tensor x = spread({3, 4});
  expect_near(leaky_relu(x), where(x > 0, x, 0.01 * x));
  expect_near(elu(x), where(x > 0, x, expm1(x)));
  expect_near(celu(x), elu(x));
  expect_near(softshrink(x), where(abs(x) > 0.5, x - 0.5 * sign(x), 0.0));
  expect_near(hardshrink(x), where(abs(x) > 0.5, x, 0.0));
  expect_near(hardtanh(x), clip(x, -1, 1));
}

TEST(Activations, SwigluIsSiluTimesTheOther) {
  const Tensor a = spread({3, 4}, 1, -40, 40), b = spread({4}, 2);
  expect_near(swiglu(a, b), silu(a) * b);
  const Tensor end = tensor({-infinity, infinity}).requires_grad_();
  const Tensor y = swiglu(end, tensor({2.0, 2.0}));
  EXPECT_EQ(values(y), (std::vector<double>{-0.0, infinity}));
  sum(y).backward();
  EXPECT_EQ(values(end.grad()), (std::vector<double>{0, 2}));
}

TEST(Activations, PreluHasOneWeightForEachChannelOfDimension1) {
  const Tensor x = spread({2, 3, 4}), weight = tensor({0.1, 0.2, 0.3});
  expect_near(prelu(x, weight), where(x > 0, x, x * weight.reshape({3, 1})));
  expect_near(prelu(x, full({1}, 0.5)), leaky_relu(x, 0.5));
  EXPECT_THROW(prelu(x, ones({4})), ShapeError);
  EXPECT_THROW(prelu(x, ones({3, 1})), ShapeError);
  EXPECT_THROW(prelu(ones({3}), weight), ShapeError);
}

TEST(Activations, GluHalvesAnEvenDimension) {
  const Tensor x = spread({2, 6});
  expect_near(glu(x), x.narrow(1, 0, 3) * sigmoid(x.narrow(1, 3, 3)));
  expect_near(glu(x, 0), x.narrow(0, 0, 1) * sigmoid(x.narrow(0, 1, 1)));
  EXPECT_THROW(glu(spread({2, 3})), ShapeError);
  EXPECT_THROW(glu(x, 2), IndexError);
  EXPECT_THROW(glu(tensor(1.0)), Error);
  EXPECT_EQ(glu(ones({0, 4})).shape(), (Dims{0, 2}));
}

TEST(Activations, LogitKeepsItsGradientAtTheEnds) {
  const Tensor x = tensor({0.0, 0.25, 1.0}).requires_grad_();
  const Tensor y = logit(x);
  EXPECT_EQ(values(y)[0], -infinity);
  EXPECT_EQ(values(y)[2], infinity);
  sum(y).backward();
  EXPECT_EQ(values(x.grad())[0], infinity);
  const Tensor z = tensor({-1.0, 0.25, 2.0}).requires_grad_();
  sum(logit(z, 0.1)).backward();
  EXPECT_EQ(values(z.grad())[0], 0);
  EXPECT_NEAR(values(z.grad())[1], 1 / (0.25 * 0.75), 1e-5);
}

TEST(Activations, NanToNumHasTheEndsOfTheDtype) {
  const Tensor x = tensor({__builtin_nan(""), infinity, -infinity, 1.5});
  EXPECT_EQ(values(nan_to_num(x.to(f32))),
            (std::vector<double>{0, 3.4028234663852886e38, -3.4028234663852886e38, 1.5}));
  EXPECT_EQ(values(nan_to_num(x.to(f16))), (std::vector<double>{0, 65504, -65504, 1.5}));
  EXPECT_EQ(values(nan_to_num(x.to(bf16)))[1], 0x1.fep127);
  EXPECT_EQ(values(nan_to_num(x, 1, 2, 3)), (std::vector<double>{1, 2, 3, 1.5}));
  EXPECT_EQ(nan_to_num(tensor({1, 2})).dtype(), i64);
}

TEST(Activations, HardtanhTakesIntegersWithAnyBounds) {
  const OpRecord* record = find_record("hardtanh");
  ASSERT_NE(record, nullptr);
  const Tensor x = tensor({0, 1, 200}).to(u8);
  const Tensor y = std::get<Tensor>(record->call(Values{x, int64_t{-1}, int64_t{100}}));
  EXPECT_EQ(y.dtype(), u8);
  EXPECT_EQ(values(y), (std::vector<double>{0, 1, 100}));
}

TEST(Powers, AreComputedInTheDtypeThatHoldsThem) {
  EXPECT_EQ(float_power(tensor({2}), 3).dtype(), f64);
  EXPECT_EQ(values(ldexp(tensor({1.5}).to(f64), tensor({1000}))), (std::vector<double>{std::ldexp(1.5, 1000)}));
  EXPECT_EQ(ldexp(tensor({3}), tensor({2})).dtype(), f32);
  EXPECT_EQ(values(exp2(tensor({-1.0, 0.0, 10.0, 127.0}))), (std::vector<double>{0.5, 1, 1024, 0x1p127}));
  EXPECT_EQ(values(log2(tensor({0.5, 1.0, 8.0, 0x1p127}))), (std::vector<double>{-1, 0, 3, 127}));
  EXPECT_EQ(values(log10(tensor({1.0, 1000.0, 1e30}))), (std::vector<double>{0, 3, 30}));
}

TEST(Predicates, SeeSignsAndInfinities) {
  const Tensor x = tensor({-0.0, 0.0, -1.0, infinity, -infinity});
  EXPECT_EQ(values(signbit(x)), (std::vector<double>{1, 0, 1, 0, 1}));
  EXPECT_EQ(values(isposinf(x)), (std::vector<double>{0, 0, 0, 1, 0}));
  EXPECT_EQ(values(isneginf(x)), (std::vector<double>{0, 0, 0, 0, 1}));
  EXPECT_EQ(values(signbit(tensor({-1, 0}))), (std::vector<double>{1, 0}));
  EXPECT_EQ(values(signbit(tensor({1, 0}).to(u64))), (std::vector<double>{0, 0}));
  EXPECT_EQ(values(signbit(tensor({true, false}))), (std::vector<double>{0, 0}));
  EXPECT_EQ(values(isreal(x)), std::vector<double>(5, 1));
}

TEST(Predicates, NearIsNear) {
  EXPECT_TRUE(allclose(tensor({1.0, infinity}), tensor({1.000001, infinity})));
  EXPECT_FALSE(allclose(tensor({1.0}), tensor({1.1})));
  EXPECT_TRUE(allclose(tensor({1.0}), tensor({1.1}), 0, 0.2));
  const Tensor nan = tensor({__builtin_nan("")});
  EXPECT_FALSE(allclose(nan, nan));
  EXPECT_TRUE(allclose(nan, nan, 0, 0, true));
  EXPECT_FALSE(allclose(tensor({int64_t{1} << 62}), tensor({(int64_t{1} << 62) + 3}), 0, 2));
  EXPECT_TRUE(allclose(tensor({int64_t{1} << 62}), tensor({(int64_t{1} << 62) + 2}), 0, 2));
  EXPECT_THROW(isclose(nan, nan, -1), ValueError);
  EXPECT_THROW(isclose(nan, nan, __builtin_nan("")), ValueError);
  EXPECT_TRUE(allclose(ones({0}), ones({0})));
  EXPECT_TRUE(equal(tensor({1, 2}), tensor({1.0, 2.0})));
  EXPECT_FALSE(equal(tensor({1, 2}), tensor({1})));
  EXPECT_FALSE(equal(nan, nan));
}

}  // namespace
}  // namespace weft
