// Values at the edges: signed zeros, infinities, NaN, tiny and huge numbers, and numbers that do not fit a dtype.
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include <weft/backends/backend.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/subscript.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/rearrange.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/scan.hpp>
#include <weft/ops/scatter.hpp>
#include <weft/ops/search.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

TEST(SpecialValues, SignOfZeroIsZero) {
  const Doubles signs = values(sign(doubles({-0.0, 0.0, -3, nan})));
  EXPECT_FALSE(std::signbit(signs[0]));
  EXPECT_EQ(signs[2], -1);
  EXPECT_TRUE(std::isnan(signs[3]));
  EXPECT_FALSE(std::signbit(sign(tensor({-0.0}).to(bf16)).item<float>()));
}

TEST(SpecialValues, AnyByteButZeroIsATrueBool) {
  const Tensor bytes = tensor({0, 2, 1, 255}).to(u8), x = zeros({4}, boolean);
  std::memcpy(x.data_ptr(), bytes.data_ptr(), 4);
  EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(x.select(0, 3).item<int>(), 1);
  EXPECT_EQ(x.sum().item<int>(), 3);
  EXPECT_EQ(unique(x).values.to_vector<int>(), (std::vector<int>{0, 1}));
  std::ostringstream text;
  text << x;
  EXPECT_NE(text.str().find("[False,  True,  True,  True]"), std::string::npos) << text.str();
  const Tensor places = tensor({0, 0, 1, 2});
  const Tensor plain = x.to(i64).to(boolean);
  for (const ScatterReduction how :
       {ScatterReduction::sum, ScatterReduction::prod, ScatterReduction::amax, ScatterReduction::amin}) {
    EXPECT_EQ(scatter_reduce(x, 0, places, x, how).to_vector<int>(),
              scatter_reduce(plain, 0, places, plain, how).to_vector<int>());
  }
  EXPECT_EQ(index_add(x, 0, tensor({0, 0}), x.slice(0, 1, 3)).to_vector<int>(), (std::vector<int>{1, 1, 1, 1}));
}

TEST(SpecialValues, NegativeNumbersAreUnsignedBitPatterns) {
  for (const DType type : {u8, u16, u32}) {
    SCOPED_TRACE(name(type));
    const double most = static_cast<double>((uint64_t{1} << (8 * itemsize(type))) - 1);
    const Tensor x = doubles({0, 7, most}).to(type);
    EXPECT_EQ(values(x + -1), (Doubles{most, 6, most - 1}));
    EXPECT_EQ(values(bitwise_and(x, -1)), (Doubles{0, 7, most}));
    EXPECT_EQ(values(x == -1), (Doubles{0, 0, 0}));
    EXPECT_EQ(values(maximum(x, -1)), (Doubles{0, 7, most}));
    EXPECT_THROW(minimum(x, -1), ValueError);
    EXPECT_THROW(floor_divide(x, -1), ValueError);
    if (device_count(DeviceType::hpu) == 0) continue;
    EXPECT_EQ(values(x.to("hpu") * -1), (Doubles{0, most - 6, 1}));
    EXPECT_EQ(values(x.to("hpu") == -1), (Doubles{0, 0, 0}));
    EXPECT_THROW(floor_divide(x.to("hpu"), tensor(-1).to("hpu")), ValueError);
  }
}

TEST(SpecialValues, SquareOfBoolIsAnInteger) {
  EXPECT_EQ(square(tensor({true, false})).dtype(), i64);
  EXPECT_THROW(square_(tensor({true, false})), DTypeError);
}

TEST(SpecialValues, IntegersToNegativePowersAreRefused) {
  EXPECT_THROW(pow(tensor({2, 1}), -1), ValueError);
  EXPECT_THROW(pow_(tensor({2, 1}), -1), ValueError);
  EXPECT_EQ(values(pow(tensor({2, 1, -1}), tensor({-1, -2, -3}))), (Doubles{0, 1, -1}));
  EXPECT_EQ(values(pow(tensor({2.}), -1)), (Doubles{0.5}));
  EXPECT_EQ(values(pow(2, tensor({-1, 2}))), (Doubles{0, 4}));
}

std::vector<Tensor> gradients_of(const std::function<Tensor(const Tensor&, const Tensor&)>& f, const Doubles& a,
                                 const Doubles& b) {
  const Tensor x = doubles(a).requires_grad_(), y = doubles(b).requires_grad_();
  return grad({f(x, y).sum()}, {x, y});
}

TEST(SpecialValues, Atan2HasAGradientEverywhere) {
  const std::vector<Tensor> g =
      gradients_of([](const Tensor& x, const Tensor& y) { return atan2(x, y); },
                   {0, 1e-200, 3e-200, 1e200, 1, infinity}, {0, 1e-200, 4e-200, 1e200, infinity, 1});
  expect_values(g[0], {0, 5e199, 1.6e199, 5e-201, 0, 0});
  expect_values(g[1], {0, -5e199, -1.2e199, -5e-201, 0, 0});
  const Tensor a = leaf({4}, 1), b = leaf({4}, 2);
  expect_gradients([](Inputs in) { return std::vector<Tensor>{atan2(in[0], in[1])}; }, {a, b});
}

TEST(SpecialValues, PowHasTheGradientOfItsExponentAtZero) {
  const std::vector<Tensor> g =
      gradients_of([](const Tensor& x, const Tensor& y) { return pow(x, y); }, {0, 0, 0, 2}, {0, 2, -1, 3});
  EXPECT_EQ(values(g[1])[0], 0);
  EXPECT_EQ(values(g[1])[1], 0);
  EXPECT_EQ(values(g[1])[2], -infinity);
}

TEST(SpecialValues, LogsumexpIgnoresFiniteElementsBesideInfinity) {
  const Tensor x = doubles({1, infinity, 2}).requires_grad_();
  const Doubles g = values(grad({logsumexp(x, 0)}, {x})[0]);
  EXPECT_EQ(g[0], 0);
  EXPECT_EQ(g[2], 0);
  const Tensor low = doubles({-infinity, -infinity}).requires_grad_();
  EXPECT_EQ(values(grad({logsumexp(low, 0)}, {low})[0]), (Doubles{0, 0}));
}

TEST(SpecialValues, LerpMeetsBothEnds) {
  const Tensor a = tensor({1e10, -3., 0.1}), b = tensor({0.1, 1e8, 0.7});
  EXPECT_EQ(values(lerp(a, b, 1.0)), values(b));
  EXPECT_EQ(values(lerp(a, b, 0.0)), values(a));
}

TEST(SpecialValues, Expm1KeepsTheSmallestNumbers) {
  const Tensor x = tensor({1.4e-45f, -1.4e-45f, 1.2e-38f});
  EXPECT_EQ(values(expm1(x)), values(x));
}

TEST(SpecialValues, AddmmDoesNotReadOperandsWithFactorZero) {
  const Tensor input = full({2, 2}, nan, f64).requires_grad_(), a = ones({2, 3}, f64), b = ones({3, 2}, f64);
  EXPECT_EQ(values(addmm(input.detach(), a, b, 0)), (Doubles{3, 3, 3, 3}));
  const Tensor out = addmm(input, a, b, 0);
  EXPECT_EQ(values(out), (Doubles{3, 3, 3, 3}));
  EXPECT_EQ(values(grad({out.sum()}, {input})[0]), (Doubles{0, 0, 0, 0}));
}

TEST(SpecialValues, ARollAlongADimensionNeedsOne) {
  EXPECT_EQ(roll(tensor(1.), 1).item<float>(), 1);
  EXPECT_THROW(roll(tensor(1.), 1, 0), IndexError);
}

TEST(SpecialValues, ProbabilitiesLieBetweenZeroAndOne) {
  for (const double p : {2.0, -0.1, nan}) EXPECT_THROW(bernoulli(doubles({0.5, p})), ValueError) << p;
  EXPECT_EQ(values(bernoulli(doubles({0, 1}))), (Doubles{0, 1}));
  EXPECT_EQ(bernoulli(zeros({0}, f32)).numel(), 0);
}

TEST(SpecialValues, AnyByteButZeroIsTrue) {
  uint8_t bytes[] = {0, 2, 255}, others[] = {0, 4, 1};
  const Tensor x = from_blob(reinterpret_cast<bool*>(bytes), {3}), truth = tensor({false, true, true});
  EXPECT_EQ(sum(x).item<int>(), 2);
  EXPECT_TRUE(all(eq(x, truth)).item<bool>());
  EXPECT_TRUE(all(eq(x, from_blob(reinterpret_cast<bool*>(others), {3}))).item<bool>());
  EXPECT_EQ(values(x == true), (Doubles{0, 1, 1}));
  EXPECT_EQ(argmax(x).item<int>(), 1);
  EXPECT_EQ(values(cumsum(x, 0)), (Doubles{0, 1, 2}));
  EXPECT_FALSE(any(lt(x, truth)).item<bool>());
}

TEST(SpecialValues, NumbersThatDoNotFitAreRefused) {
  EXPECT_THROW(tensor({300}, i8), ValueError);
  EXPECT_THROW(tensor({nan}, i32), ValueError);
  EXPECT_THROW(tensor({1e10}, i32), ValueError);
  EXPECT_THROW(tensor({infinity}, i64), ValueError);
  EXPECT_THROW(tensor({9223372036854775808.0}, i64), ValueError);
  EXPECT_EQ(tensor({-9223372036854775808.0}, i64).item<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(tensor({-1}, u8).item<int>(), 255);  // the unsigned number with its bits
  EXPECT_EQ(tensor({255.7, -0.0}, u8).to_vector<int>(), (std::vector<int>{255, 0}));
  EXPECT_EQ(tensor({300}, boolean).item<int>(), 1);
  const auto most = std::numeric_limits<uint64_t>::max();
  EXPECT_THROW(full({2}, most), ValueError);
  EXPECT_EQ(full({2}, most, u64).to_vector<uint64_t>(), (std::vector<uint64_t>{most, most}));
  EXPECT_THROW(full({1}, 300, i8), ValueError);
  const Tensor x = zeros({2}, i8);
  EXPECT_THROW(x.fill_(300), ValueError);
  EXPECT_THROW(x.masked_fill_(tensor({true, false}), 300), ValueError);
  EXPECT_THROW(where(tensor({true, false}), x, -129), ValueError);
  EXPECT_THROW(setitem(x, std::vector<Index>{Index(0)}, 300), ValueError);
  EXPECT_THROW(x + 300, ValueError);
  EXPECT_THROW(x.add_(300), ValueError);
  EXPECT_EQ(values(x), (Doubles{0, 0}));
  EXPECT_EQ(values(x + 100 + 100), (Doubles{-56, -56}));  // results wrap around
}

// The sum of n equal numbers, whatever way it is taken, within one part in ten million.
TEST(SpecialValues, SumsOfManyEqualFloatsKeepTheirDigits) {
  const int64_t n = 4'000'000;
  const double exact = static_cast<double>(0.1f) * n;
  const Tensor x = full({n}, 0.1, f32);
  const auto off = [](const Tensor& t, double want) { return std::fabs(t.item<double>() - want) / want; };
  EXPECT_LT(off(sum(x), exact), 1e-7);
  EXPECT_LT(off(mean(x), exact / n), 1e-7);
  EXPECT_LT(off(sum(x.slice(0, 0, {}, 2)), exact / 2), 1e-7);
  EXPECT_LT(off(sum(x.view({n / 10, 10}), 0).select(0, 3), exact / 10), 1e-7);
  EXPECT_LT(off(sum(x.view({n / 1000, 1000}).t(), 1).select(0, 3), exact / 1000), 1e-7);
  EXPECT_LT(off(sum(x.view({1000, n / 1000}), 1).select(0, 3), exact / 1000), 1e-7);
  EXPECT_LT(off(matmul(x.view({1, n}).expand({3, n}).contiguous(), ones({n, 5})).select(0, 1).select(0, 1), exact),
            1e-4);
  EXPECT_LT(off(dot(x, ones({n})), exact), 2e-6);
  EXPECT_LT(off(matmul(x, ones({n, 3})).select(0, 1), exact), 1e-4);
}

}  // namespace
}  // namespace weft::testing
