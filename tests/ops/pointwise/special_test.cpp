// Special functions and the bits of numbers. Known values are of 18 digits, computed by mpmath with 40.
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <weft/ops/gradcheck.hpp>
#include <weft/weft.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

using Tensors = std::vector<Tensor>;

struct Known {
  double x, y;
};

// clang-format off
const Known lgamma_values[] = {
    {1.86871, -0.0497901298785822159}, {2.22536, 0.110934117800037938}, {2.38558, 0.207498177593635099},
    {2.82735, 0.539851339750415298}, {7.17929, 6.91746826583395404}, {8.45627, 9.45842446814494389},
    {2.20304, 0.0986047647459681212}, {5.25936, 3.57598648078223686}, {9434.08, 76903.7549976770938},
    {6492.9, 50501.3222035045569}, {9009.9, 73031.3293586037628}, {-5.32076, -4.03146564092346224},
    {-3.18559, -0.288158068162522916}, {-4.52056, -2.84416277192050711}, {-2.73743, -0.0186416295908831117}};
const Known digamma_values[] = {
    {0.573941, -1.6389040069692768}, {0.0131142, -76.8090696908180901}, {0.21673, -4.88207691943469914},
    {3.95638, 1.24366053880827232}, {8.41442, 2.06934976643912863}, {7.36008, 1.92660122857545221},
    {3.11723, 0.968054373642772711}, {7973.3, 8.98379102818263157}, {1395.43, 7.240599535198292},
    {6177.97, 8.7286640826093662}, {-5.2398, 5.09835401505330617}, {-5.98935, -91.9905261612767736},
    {-0.771572, -3.33528769247204316}, {-4.74326, -1.35284040649120815}};
const Known i0_values[] = {
    {-1.70711, 1.87250036790908349}, {2.89453, 4.48303634686554563}, {2.23445, 2.69613765069460311},
    {-1.26417, 1.44125428070863589}, {12.9214, 45848.6854605770241}, {1.09826, 1.32505208288218039},
    {4.97925, 26.7396928089689428}, {-8.26617, 548.577050531997393}, {12.3473, 26428.9763245466381},
    {228.77, 5.95657993739059813e+97}, {559.877, 2.39030018849929432e+241}, {472.49, 2.90822850342116543e+203}};
const Known i0e_values[] = {
    {-1.20727, 0.418301228821069426}, {-0.83286, 0.51353761077808933}, {-2.00426, 0.308111838437575476},
    {-2.12579, 0.297372906130512622}, {-12.1761, 0.115562153293558994}, {-5.56195, 0.173452888228724845},
    {2.88708, 0.24839099717881729}, {-13.9053, 0.10798817804621974}, {4.98216, 0.18389092809149212},
    {-194.524, 0.0286222167656312275}, {-228.05, 0.0264322175247364015}, {382.222, 0.0204124174462060831}};
const Known i1_values[] = {
    {-0.115529, -0.057860926095363575}, {-1.10524, -0.64140787113571572}, {-0.11269, -0.0564344882367044234},
    {1.22801, 0.737250845998526645}, {-12.404, -26755.7502515911057}, {13.3028, 63611.3755875663436},
    {-13.3598, -67207.4971745176405}, {6.99426, 155.201590457398377}, {9.65666, 1925.30783098626427},
    {-578.319, -2.40046269650446071e+249}, {345.286, 1.93710296746563817e+148},
    {-160.579, -1.72037022708626889e+68}};
const Known i1e_values[] = {
    {0.471113, 0.151177421278141818}, {-2.94553, -0.197887581717887544}, {-2.71964, -0.202314118356894375},
    {-1.91448, -0.21643036410612146}, {12.745, 0.108373220270755039}, {-8.49739, -0.130567384088525998},
    {7.16062, 0.140883525495237341}, {12.0303, 0.111333427007960968}, {12.3772, 0.109866944399206038},
    {-186.742, -0.0291349718091472862}, {-174.248, -0.0301570476323973671}, {29.6422, 0.0723377678050606691}};
const Known erfinv_values[] = {
    {0.551206, 0.535581868684618701}, {-0.783894, -0.874655058345764955}, {0.496796, 0.473377586275385044},
    {0.594453, 0.588139912488430486}, {0.719389, 0.76293130345244065}, {-0.926737, -1.26656175960094473},
    {0.999458, 2.44594731810406405}, {0.990912, 1.84464778766877892}, {0.993407, 1.92101951255851465},
    {2.21655e-07, 1.96436629161233612e-7}, {8.36174e-07, 7.41039913163670084e-7}};
const Known ndtri_values[] = {
    {0.33996, -0.412572299126967049}, {0.924198, 1.43388879475681258}, {0.545144, 0.113401816051213377},
    {0.31245, -0.488917649233034727}, {0.3168, -0.47666596837919748}, {0.177478, -0.925019046803731681},
    {7.81962e-05, -3.78069304393046425}, {0.000148868, -3.61726190276111259}, {0.000689175, -3.19914672514323815},
    {0.500099, 0.000248156201735341215}, {0.499932, -0.000170450723500302922}};
// clang-format on

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

// Within 6 units of the last place in f64 (of 1 near a root), and within `units` in f32; half a unit means that f64's
// value was rounded once.
template <size_t n>
void expect_known(Tensor (*op)(const Operand&), const Known (&known)[n], double units) {
  for (const Known& k : known) {
    const double got = op(tensor(k.x, f64)).item<double>(),
                 scale = std::max(std::abs(k.y), std::min(1.0, std::abs(k.x)));
    EXPECT_NEAR(got, k.y, 6 * 2.3e-16 * scale) << "of " << k.x;
    const float x = static_cast<float>(k.x);
    const double wide = op(tensor(static_cast<double>(x), f64)).item<double>();
    const float got32 = op(tensor(x)).item<float>(), rounded = static_cast<float>(wide);
    if (std::isinf(rounded)) EXPECT_EQ(got32, rounded) << "of the float " << x;
    else EXPECT_NEAR(static_cast<double>(got32), wide, units * std::ldexp(1.0, std::ilogb(wide) - 23)) << "of " << x;
  }
}

TEST(SpecialFunctions, HaveTheirKnownValues) {
  expect_known(lgamma, lgamma_values, 0.51);
  expect_known(digamma, digamma_values, 0.51);
  expect_known(i0, i0_values, 5.5);
  expect_known(i0e, i0e_values, 5.5);
  expect_known(i1, i1_values, 5.5);
  expect_known(i1e, i1e_values, 5.5);
  expect_known(erfinv, erfinv_values, 5.5);
  expect_known(ndtri, ndtri_values, 5.5);
}

TEST(SpecialFunctions, HaveTheirLimits) {
  const auto at = [](Tensor (*op)(const Operand&), double x) { return op(tensor(x, f64)).item<double>(); };
  for (double pole : {0.0, -0.0, -1.0, -7.0}) EXPECT_EQ(at(lgamma, pole), inf);
  EXPECT_EQ(at(lgamma, -inf), inf);
  EXPECT_EQ(at(lgamma, 1), 0);
  EXPECT_EQ(at(lgamma, 2), 0);
  EXPECT_EQ(at(digamma, 0.0), -inf);
  EXPECT_EQ(at(digamma, -0.0), inf);
  EXPECT_TRUE(std::isnan(at(digamma, -3)));
  EXPECT_EQ(at(i0, 1000), inf);
  EXPECT_EQ(at(i0, -inf), inf);
  EXPECT_EQ(at(i1, -1000), -inf);
  EXPECT_EQ(at(i0e, inf), 0);
  EXPECT_EQ(at(i1e, -inf), 0);
  EXPECT_EQ(at(erfinv, 1), inf);
  EXPECT_EQ(at(erfinv, -1), -inf);
  EXPECT_TRUE(std::isnan(at(erfinv, 1.0000001)));
  EXPECT_EQ(at(ndtri, 0), -inf);
  EXPECT_EQ(at(ndtri, 1), inf);
  EXPECT_TRUE(std::isnan(at(ndtri, -0.1)));
  EXPECT_NEAR(at(ndtri, 1e-300), -37.0470962993611992, 1e-13);
  // I_0 is a number where exp(x) no longer is.
  EXPECT_NEAR(at(i0, 712) / 2.46841105776275243e307, 1, 1e-14);
}

TEST(SpecialFunctions, PolygammaHasItsKnownValuesOnBothSidesOfZero) {
  const std::vector<double> x = {0.375, 2.5, 30.25, -1.75};
  const std::vector<std::pair<int64_t, std::vector<double>>> known = {
      {1, {8.16177763276150785, 0.490357756100234865, 0.0336102817442532987, 19.3016375445297865}},
      {2, {-38.962118497034144, -0.236204051641727403, -0.00112954477227282797, -124.213821354230582}},
      {3, {305.354095061354296, 0.223905848817252051, 0.0000759143559110879142, 1558.38484041654953}},
      {7, {12888247.4729220481, 3.56523635252313135, 3.48161411074680019e-8, 330352694.16026349}}};
  for (const auto& [n, values] : known) {
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(polygamma(n, tensor(x[i], f64)).item<double>() / values[i], 1, 1e-13) << n << " at " << x[i];
    }
  }
  EXPECT_EQ(polygamma(1, tensor(-2.0)).item<float>(), inf);
  EXPECT_EQ(polygamma(2, tensor(0.0)).item<float>(), -inf);
  EXPECT_THROW(polygamma(-1, tensor(1.0)), ValueError);
  EXPECT_EQ(polygamma(3, tensor({1, 2})).dtype(), f32);
}

TEST(SpecialFunctions, MultivariateLgammaIsASumAndNaNOutsideItsDomain) {
  const double expected =
      1.5 * std::log(3.14159265358979324) + std::lgamma(2.75) + std::lgamma(2.25) + std::lgamma(1.75);
  EXPECT_NEAR(mvlgamma(tensor(2.75, f64), 3).item<double>(), expected, 1e-14);
  EXPECT_TRUE(std::isnan(mvlgamma(tensor(1.0), 3).item<float>()));
  EXPECT_THROW(mvlgamma(tensor(1.0), 0), ValueError);
}

TEST(SpecialFunctions, HaveGradientsToThirdOrderNearTheirSeams) {
  const auto check = [](const GradcheckFunction& f, std::initializer_list<double> at) {
    const Tensor x = tensor(at, f64).requires_grad_();
    EXPECT_TRUE(gradcheck(f, {x}));
    EXPECT_TRUE(gradgradcheck(f, {x}));
  };
  check([](std::span<const Tensor> x) { return Tensors{lgamma(x[0])}; },
        {0.45, 0.55, 1.0, 1.55, 2.45, 8.45, 8.55, -0.5});
  check([](std::span<const Tensor> x) { return Tensors{digamma(x[0])}; }, {0.45, 1.46, 7.95, 8.05, -2.5});
  check([](std::span<const Tensor> x) { return Tensors{polygamma(1, x[0])}; }, {0.6, 7.95, -1.4});
  check([](std::span<const Tensor> x) { return Tensors{i0e(x[0])}; }, {-12.05, -11.95, -1, 1, 11.95, 12.05});
  check([](std::span<const Tensor> x) { return Tensors{i1(x[0])}; }, {-3, 0, 0.5, 11.95, 12.05});
  check([](std::span<const Tensor> x) { return Tensors{i1e(x[0])}; }, {-3, -0.5, 0.5, 11.95, 12.05});
  check([](std::span<const Tensor> x) { return Tensors{erfinv(x[0])}; }, {-0.9, -0.84, 0.86, 0});
}

// ---- the parts of numbers -------------------------------------------------------------------------------------------

TEST(NextAfter, IsTheNeighbourInEveryFormat) {
  EXPECT_EQ(nextafter(tensor(1.0f), 2.0).item<float>(), std::nextafterf(1, 2));
  EXPECT_EQ(nextafter(tensor(1.0, f64), tensor(-1.0, f64)).item<double>(), std::nextafter(1, -1));
  EXPECT_EQ(nextafter(tensor(1.0).to(bf16), tensor(2.0).to(bf16)).item<float>(), 1.0078125f);
  EXPECT_EQ(nextafter(tensor(1.0).to(f16), tensor(0.0).to(f16)).item<float>(), 0.99951171875f);
  EXPECT_EQ(nextafter(tensor(0.0f), tensor(-1.0f)).item<float>(), -std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(nextafter(tensor(3e-45f), tensor(0.0f)).item<float>(), 1.4012984643e-45f);
  EXPECT_EQ(nextafter(tensor(std::numeric_limits<float>::max()), tensor(static_cast<float>(inf))).item<float>(), inf);
  EXPECT_EQ(nextafter(tensor(static_cast<float>(inf)), tensor(0.0f)).item<float>(), std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isnan(nextafter(tensor(1.0f), tensor(static_cast<float>(nan))).item<float>()));
  EXPECT_TRUE(std::signbit(nextafter(tensor(0.0f), tensor(-0.0f)).item<float>()));
  EXPECT_THROW(nextafter(tensor({1, 2}), 3), DTypeError);
}

TEST(Frexp, TakesEveryNumberApartAndKeepsItsGradient) {
  for (double x : {1.0, -0.75, 3e300, 5e-324, -2.5e-310, 0.0, 1e-30}) {
    int exponent = 0;
    const double mantissa = std::frexp(x, &exponent);
    const auto got = frexp(tensor(x, f64));
    EXPECT_EQ(got.mantissa.item<double>(), mantissa) << x;
    EXPECT_EQ(got.exponent.item<int>(), exponent) << x;
  }
  EXPECT_EQ(frexp(tensor(1e-42f)).mantissa.item<float>(), std::frexp(1e-42f, std::make_unique<int>().get()));
  EXPECT_EQ(frexp(tensor(inf, f64)).mantissa.item<double>(), inf);
  EXPECT_EQ(frexp(tensor(nan, f64)).exponent.item<int>(), 0);
  const Tensor x = tensor({3.0, -0.3}).requires_grad_();
  sum(frexp(x).mantissa).backward();
  EXPECT_TRUE(equal(x.grad(), tensor({0.25, 2.0})));
}

TEST(Positive, IsXItselfAndRefusesBool) {
  const Tensor x = tensor({1.0, -2.0});
  EXPECT_EQ(positive(x).impl(), x.impl());
  EXPECT_THROW(positive(x > 0), DTypeError);
}

TEST(ViewOfBytes, SharesThemAndChangesTheLastDimension) {
  const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, -0.0f}});
  EXPECT_EQ(x.view_bytes(i32).to_vector<int>()[0], 0x3F800000);
  const Tensor bytes = x.view_bytes(u8);
  EXPECT_EQ(bytes.shape(), Dims({2, 8}));
  bytes.zero_();
  EXPECT_EQ(sum(x).item<float>(), 0);
  EXPECT_EQ(x.view_bytes(f64).shape(), Dims({2, 1}));
  EXPECT_THROW(x.transpose(0, 1).view_bytes(f64), ShapeError);
  EXPECT_THROW(tensor(1.0f).view_bytes(f64), ShapeError);
}

// ---- bits -----------------------------------------------------------------------------------------------------------

// Every pair of numbers of 8 bits, and a few of the ends of the wider types.
template <class T, class Op>
void expect_pairs(Tensor (*op)(const Operand&, const Operand&), Op exact) {
  std::vector<T> a, b;
  if (sizeof(T) == 1) {
    for (int i = 0; i < 65536; ++i) a.push_back(static_cast<T>(i)), b.push_back(static_cast<T>(i >> 8));
  } else {
    const T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    const std::vector<T> ends = {low, static_cast<T>(low + 1), T(0), T(1), T(7), T(12), T(18), T(31), T(63), T(64),
                                 high};
    for (T x : ends) {
      for (T y : ends) a.push_back(x), b.push_back(y);
    }
  }
  const Dims shape = {static_cast<int64_t>(a.size())};
  const Tensor x = tensor(std::span<const T>(a), shape), y = tensor(std::span<const T>(b), shape);
  const std::vector<T> got = op(x, y).to_vector<T>();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(got[i], exact(a[i], b[i])) << +a[i] << ", " << +b[i];
}
template <class T>
struct Exact {
  using Unsigned = std::make_unsigned_t<T>;
  static constexpr int width = 8 * sizeof(T);
  static bool within(T b) { return b >= 0 && static_cast<uint64_t>(b) < width; }
  static T left(T a, T b) { return within(b) ? static_cast<T>(static_cast<uint64_t>(a) << b) : T(0); }
  static T right(T a, T b) { return within(b) ? static_cast<T>(a >> b) : static_cast<T>(a < 0 ? -1 : 0); }
  static Unsigned size(T a) {
    return a < 0 ? static_cast<Unsigned>(0 - static_cast<uint64_t>(a)) : static_cast<Unsigned>(a);
  }
  static T divisor(T a, T b) { return static_cast<T>(std::gcd(size(a), size(b))); }
  static T multiple(T a, T b) {
    const uint64_t d = std::gcd(size(a), size(b));
    return d == 0 ? T(0) : static_cast<T>(size(a) / d * size(b));
  }
};

template <class T>
void expect_integer_ops() {
  expect_pairs<T>(bitwise_and, [](T a, T b) { return static_cast<T>(a & b); });
  expect_pairs<T>(bitwise_or, [](T a, T b) { return static_cast<T>(a | b); });
  expect_pairs<T>(bitwise_xor, [](T a, T b) { return static_cast<T>(a ^ b); });
  expect_pairs<T>(bitwise_left_shift, Exact<T>::left);
  expect_pairs<T>(bitwise_right_shift, Exact<T>::right);
  expect_pairs<T>(gcd, Exact<T>::divisor);
  expect_pairs<T>(lcm, Exact<T>::multiple);
}
TEST(IntegerOps, AreExactForEveryPairOfNumbersAndAtTheEndsOfWiderTypes) {
  expect_integer_ops<int8_t>();
  expect_integer_ops<uint8_t>();
  expect_integer_ops<int16_t>();
  expect_integer_ops<uint16_t>();
  expect_integer_ops<int32_t>();
  expect_integer_ops<uint32_t>();
  expect_integer_ops<int64_t>();
  expect_integer_ops<uint64_t>();
}

TEST(IntegerOps, OfBoolAreLogicalForAnyTrueByte) {
  uint8_t bytes[] = {0, 1, 2, 255};
  const Tensor a = from_blob(reinterpret_cast<bool*>(bytes), {4}), b = tensor({true, true, true, false});
  EXPECT_TRUE(equal(a & b, tensor({false, true, true, false})));
  EXPECT_TRUE(equal(a | b, tensor({true, true, true, true})));
  EXPECT_TRUE(equal(a ^ b, tensor({true, false, false, true})));
  EXPECT_TRUE(equal(~b, tensor({false, false, false, true})));
  EXPECT_EQ(bitwise_left_shift(b, 1).dtype(), i64);
  EXPECT_THROW(bitwise_left_shift(b, b), DTypeError);
  EXPECT_THROW(gcd(b, b), DTypeError);
}

TEST(IntegerOps, RefuseFloatingPointNumbersAndLeaveTheTarget) {
  const Tensor x = tensor({1.0, 2.0}), n = tensor({3, 5});
  EXPECT_THROW(x & 1, DTypeError);
  EXPECT_THROW(gcd(n, 2.5), DTypeError);
  EXPECT_THROW(~x, DTypeError);
  EXPECT_THROW(bitwise_and_(n, 1.5), DTypeError);
  EXPECT_THROW(bitwise_xor_(x, 1), DTypeError);
  EXPECT_TRUE(equal(n, tensor({3, 5})));
  EXPECT_TRUE(equal(x, tensor({1.0, 2.0})));
}

TEST(IntegerOps, PromoteAndBroadcastAsArithmeticDoes) {
  const Tensor bytes = tensor({200, 100}).to(u8), whole = tensor({{3}, {-1}});
  const Tensor both = bitwise_and(bytes, whole);
  EXPECT_EQ(both.dtype(), i64);
  EXPECT_TRUE(equal(both, tensor({{0, 0}, {200, 100}})));
  EXPECT_TRUE(equal(~bytes, tensor({55, 155}).to(u8)));
  EXPECT_TRUE(equal(bitwise_or(bytes, true), tensor({201, 101}).to(u8)));
  Tensor x = tensor({6, 5});
  x[0].bitwise_or_(9);
  EXPECT_TRUE(equal(x, tensor({15, 5})));
}

}  // namespace
}  // namespace weft::testing
