// Rounded quotients and remainders: floats exactly as in Python; integers in all bits.
#include <cmath>
#include <cstdint>

#include <weft/ops/index.hpp>
#include <weft/map/map.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

// Python's //, by fmod.
double floor_quotient(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double below = std::floor(quotient);
  return quotient - below > 0.5 ? below + 1 : below;
}
// Python's %, by fmod.
double floor_rest(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

void expect_identical(const Tensor& actual, const Doubles& expected) {
  const Doubles got = values(actual);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
      continue;
    }
    EXPECT_EQ(got[i], expected[i]) << i;
    EXPECT_EQ(std::signbit(got[i]), std::signbit(expected[i])) << i;
  }
}

TEST(Division, OfFloatsIsPythons) {
  const Tensor a = doubles({1e8, 7.0, 1.0, 5, -5, -6, 6, -0.0, 0.0, 1e300, -1e-45, infinity, nan, 3});
  const Tensor b = doubles({3, 0.1, 0.1, infinity, infinity, 3, -3, 3, -3, 1e-300, 3, 3, 1, nan});
  expect_identical(remainder(a, b), {1, 0.09999999999999962, 0.09999999999999995, 5, infinity, 0.0, -0.0, 0.0, -0.0,
                                     4.891554850853602e-301, 3, nan, nan, nan});
  expect_identical(floor_divide(a, b), {33333333, 69, 9, 0, -1, -2, -2, -0.0, -0.0, infinity, -1, nan, nan, nan});
  expect_identical(a % b, values(remainder(a, b)));
  expect_identical(floor_divide(doubles({1, -1, 0}), 0.0), {infinity, -infinity, nan});
  expect_identical(remainder(doubles({1, -1, 0}), 0.0), {nan, nan, nan});
  expect_identical(fmod(doubles({-7, 7, -6, 5}), doubles({2, -2, 3, infinity})), {-1, 1, -0.0, 5});
  expect_identical(trunc_divide(doubles({-7, 7, -1}), doubles({2, -2, 3})), {-3, -3, -0.0});
}

template <class T>
void expect_pythons(DType dtype, double step) {
  Doubles left, right, quotients, rests, fmods;
  for (int i = 0; i < 4096; ++i) {
    const T a = static_cast<T>(std::ldexp(std::sin(i * 1.7) * 3, static_cast<int>(i % 97 * step))),
            b = static_cast<T>(std::ldexp(std::cos(i * 0.9) * 2, static_cast<int>(i % 31 * step)));
    left.push_back(static_cast<double>(a));
    right.push_back(static_cast<double>(b));
    rests.push_back(static_cast<double>(static_cast<T>(floor_rest(a, b))));
    fmods.push_back(std::fmod(a, b));
  }
  const Tensor a = doubles(left).to(dtype), b = doubles(right).to(dtype);
  expect_identical(remainder(a, b), rests);
  expect_identical(fmod(a, b), fmods);
}
TEST(Division, RestsOfEverySizeAreExact) {
  expect_pythons<double>(f64, 9.5);
  expect_pythons<float>(f32, 1.2);
}

TEST(Division, QuotientsAreTheNearestWholeNumbers) {
  Doubles left, right, expected;
  for (int i = 1; i < 3000; ++i) {
    left.push_back(std::sin(i) * i);
    right.push_back(std::cos(i * 3.0) + 0.05);
    expected.push_back(floor_quotient(left.back(), right.back()));
  }
  expect_identical(floor_divide(doubles(left), doubles(right)), expected);
}

TEST(Division, SixteenBitFloatsAreRoundedOnce) {
  for (const DType half : {bf16, f16}) {
    const Tensor a = doubles({1000, 7, -5, 100}).to(half), b = doubles({3, 0.1, 0.3, -0.7}).to(half);
    Doubles rests, quotients;
    for (size_t i = 0; i < 4; ++i) {
      rests.push_back(floor_rest(values(a)[i], values(b)[i]));
      quotients.push_back(floor_quotient(values(a)[i], values(b)[i]));
    }
    EXPECT_EQ(values(remainder(a, b)), values(doubles(rests).to(half)));
    EXPECT_EQ(values(floor_divide(a, b)), values(doubles(quotients).to(half)));
  }
}

TEST(Division, OfIntegersIsExact) {
  const int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  const Tensor a = tensor({7, -7, 7, -7}), b = tensor({2, 2, -2, -2});
  EXPECT_EQ(floor_divide(a, b).to_vector<int64_t>(), (std::vector<int64_t>{3, -4, -4, 3}));
  EXPECT_EQ(remainder(a, b).to_vector<int64_t>(), (std::vector<int64_t>{1, 1, -1, -1}));
  EXPECT_EQ(trunc_divide(a, b).to_vector<int64_t>(), (std::vector<int64_t>{3, -3, -3, 3}));
  EXPECT_EQ(fmod(a, b).to_vector<int64_t>(), (std::vector<int64_t>{1, -1, 1, -1}));
  EXPECT_EQ(div(a, b, Rounding::floor).to_vector<int64_t>(), (std::vector<int64_t>{3, -4, -4, 3}));
  EXPECT_EQ(div(a, b, Rounding::trunc).dtype(), i64);
  EXPECT_EQ(div(a, b, Rounding::none).dtype(), f32);
  const Tensor far = tensor({low, high, high - 1});
  EXPECT_EQ(floor_divide(far, 3).to_vector<int64_t>(),
            (std::vector<int64_t>{-3074457345618258603, high / 3, high / 3}));
  EXPECT_EQ(floor_divide(far, -1).to_vector<int64_t>(), (std::vector<int64_t>{low, -high, 1 - high}));
  EXPECT_EQ(remainder(far, -1).to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(floor_divide(tensor({-128}).to(i8), -1).item<int>(), -128);
  EXPECT_EQ(remainder(tensor({-7}).to(i8), 4).dtype(), i8);
}

TEST(Division, OfIntegersByZeroRaisesBeforeAnythingIsWritten) {
  const Tensor a = tensor({1, 2, 3}), out = zeros({3}, i64);
  EXPECT_THROW(floor_divide(a, 0), ZeroDivisionError);
  EXPECT_THROW(trunc_divide(a, tensor({1, 0, 1})), ZeroDivisionError);
  EXPECT_THROW(fmod(a.to(i8), 0), ZeroDivisionError);
  EXPECT_THROW(remainder_(a, tensor({1, 0, 1})), ZeroDivisionError);
  EXPECT_THROW(remainder_out(out, a, tensor({1, 0, 1})), ZeroDivisionError);
  EXPECT_EQ(a.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(out.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(floor_divide(zeros({0}, i64), 0).numel(), 0);
  EXPECT_EQ(floor_divide(a.to(Device(DeviceType::meta)), 0).shape(), a.shape());  // no elements to look at
  EXPECT_THROW(remainder(tensor({true}), tensor({true})), DTypeError);
}

TEST(Division, WritesInPlace) {
  const Tensor x = tensor({7., -7.});
  div_(x, 2, Rounding::floor);
  EXPECT_EQ(values(x), (Doubles{3, -4}));
  remainder_(x, 3);
  EXPECT_EQ(values(x), (Doubles{0, 2}));
  const Tensor n = tensor({7, -7});
  EXPECT_EQ(floor_divide_(n, 2).to_vector<int64_t>(), (std::vector<int64_t>{3, -4}));
}

TEST(Division, GradientsFollowTheFormula) {
  const Tensor a = doubles({7.5, -7.5, 1}).requires_grad_(), b = doubles({2, 2, infinity}).requires_grad_();
  std::vector<Tensor> g = grad({remainder(a, b).sum()}, {a, b});
  EXPECT_EQ(values(g[0]), (Doubles{1, 1, 1}));
  EXPECT_EQ(values(g[1]), (Doubles{-3, 4, 0}));
  g = grad({fmod(a, b).sum()}, {a, b});
  EXPECT_EQ(values(g[1]), (Doubles{-3, 3, 0}));
  g = grad({(floor_divide(a, b) + trunc_divide(a, b.detach())).sum()}, {a, b});
  EXPECT_EQ(values(g[0]), (Doubles{0, 0, 0}));
  EXPECT_EQ(g[1].dtype(), f64);
}

TEST(Division, IsThereInsideMap) {
  const Tensor a = doubles({7.5, -7.5, -6}).requires_grad_(), b = doubles({2, 2, 3}).requires_grad_();
  const Tensor y = map([](auto x, auto z) { return remainder(x, z) + fmod(x, z) + floor_divide(x, z) * 10; }, a, b);
  EXPECT_EQ(values(y), values(remainder(a, b) + fmod(a, b) + floor_divide(a, b) * 10));
  const Tensor weights = doubles({1, 2, 3});
  const std::vector<Tensor> g = grad({(y * weights).sum()}, {a, b});
  EXPECT_EQ(values(g[0]), (Doubles{2, 4, 6}));
  EXPECT_EQ(values(g[1]), (Doubles{-6, 14, 12}));
  const Tensor n = map([](auto x) { return floor_divide(x, 2) * 100 + remainder(x, 2); }, tensor({7, -7}));
  EXPECT_EQ(n.to_vector<int64_t>(), (std::vector<int64_t>{301, -399}));
}

TEST(Division, LooksOnceAtAnExpandedDivisor) {
  const Tensor huge = tensor({2}).expand({int64_t{1} << 59});
  EXPECT_THROW(floor_divide(tensor(5), huge), OutOfMemoryError);
  EXPECT_THROW(floor_divide(tensor(5), tensor({0}).expand({int64_t{1} << 59})), Error);
  EXPECT_EQ(floor_divide(tensor({5, 7}), tensor({2}).expand({2})).to_vector<int64_t>(), (std::vector<int64_t>{2, 3}));
}

}  // namespace
}  // namespace weft::testing
