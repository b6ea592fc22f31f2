// The functions of weft::map at their edges, and how exact they are.
#include "near.hpp"

namespace weft::testing {
namespace {

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

}  // namespace
}  // namespace weft::testing
