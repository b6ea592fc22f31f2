// Gamma numbers: their distribution function against SciPy, and implicit derivatives of draws against quantiles.
#include <weft/ops/reduce.hpp>

#include "kinds.hpp"

namespace weft::testing {
namespace {

double probability(double a, double x) {
  return ds::Gamma(doubles({a}), doubles({1})).cdf(doubles({x})).item<double>();
}

/// The x at which P(a, x) is u, near `guess`.
double quantile(double a, double u, double guess) {
  double low = guess * 0.9, high = guess * 1.1;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (probability(a, middle) < u ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

struct Slopes {
  double draw, first, second;
};
/// A draw with its derivatives by the concentration.
Slopes drawn(double a, uint64_t seed) {
  Generator generator(seed);
  const Tensor shape = doubles({a}).requires_grad_();
  const Tensor x = ds::Gamma(shape, doubles({1})).rsample({}, &generator);
  const Tensor first = grad({x.sum()}, {shape}, {}, {.create_graph = true})[0];
  const Tensor second = grad({first.sum()}, {shape})[0];
  return {x.item<double>(), first.item<double>(), second.item<double>()};
}

TEST(GammaCdf, AnswersAsSciPy) {
  // scipy.special.gammainc(a, x), SciPy 1.17
  const Doubles rows = {0.01, 1e-8,    0.836510254685233,
                        0.5,  0.3,     0.5614219739190003,
                        2.5,  2,       0.4505840486472198,
                        30,   45,      0.9926628007022035,
                        1000, 980,     0.2656040388821805,
                        2e6,  2.001e6, 0.7602865609469363,
                        5,    80,      1.0};
  for (size_t i = 0; i < rows.size(); i += 3) {
    EXPECT_NEAR(probability(rows[i], rows[i + 1]), rows[i + 2], 1e-9) << rows[i] << ", " << rows[i + 1];
  }
  expect_values(ds::Gamma(doubles({2, 2}), doubles({1, 1}), {.validate_args = false}).cdf(doubles({0, infinity})),
                {0, 1});
}

TEST(GammaCdf, HasDerivatives) {
  const Tensor a = doubles({0.5, 2.5, 9}).requires_grad_(), x = doubles({0.3, 2, 14}).requires_grad_();
  EXPECT_NO_THROW(gradcheck([](Inputs v) { return ds::Gamma(v[0], doubles({1})).cdf(v[1]); }, {a, x}));
}

TEST(GammaDraws, HaveTheDerivativesOfTheirQuantiles) {
  for (const double a : {0.3, 0.9, 2.5, 20.0, 300.0}) {
    for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
      const Slopes s = drawn(a, seed);
      const double u = probability(a, s.draw), step = a * 1e-3;
      const double above = quantile(a + step, u, s.draw + s.first * step);
      const double below = quantile(a - step, u, s.draw - s.first * step), here = quantile(a, u, s.draw);
      EXPECT_NEAR(s.first, (above - below) / (2 * step), 1e-4 * (1 + std::fabs(s.first))) << a << " at " << s.draw;
      EXPECT_NEAR(s.second * step * step, above - 2 * here + below, 1e-4 * std::fabs(s.second * step * step) + 1e-8)
          << a << " at " << s.draw;
    }
  }
}

TEST(GammaDraws, OfLargeShapesHaveTheDerivativesOfTheLimit) {
  const Slopes below = drawn(0.99e6, 3), above = drawn(1.01e6, 3);  // by a series, and by Wilson and Hilferty
  const auto expected = [](double a, double x) {
    const double z = (x - a) / std::sqrt(a);
    return 1 + z / (2 * std::sqrt(a));
  };
  EXPECT_NEAR(below.first, expected(0.99e6, below.draw), 3e-6);
  EXPECT_NEAR(above.first, expected(1.01e6, above.draw), 3e-6);
}

TEST(GammaDraws, ThirdDerivativesRaise) {
  Generator generator(1);
  const Tensor a = doubles({2}).requires_grad_();
  const Tensor x = ds::Gamma(a, doubles({1})).rsample({}, &generator);
  const Tensor first = grad({x.sum()}, {a}, {}, {.create_graph = true})[0];
  EXPECT_THROW(grad({first.sum()}, {a}, {}, {.create_graph = true}), NotImplementedError);
}

// The gradient of an expectation is the mean of the draws' gradients.
TEST(GammaDraws, GiveGradientsOfExpectations) {
  constexpr int64_t count = 40000;
  const auto mean_slope = [](const Tensor& parameter, const ds::Distribution& d, const auto& of) {
    Generator generator(6);
    return grad({of(d.rsample({count}, &generator)).mean()}, {parameter})[0].template item<double>();
  };
  const Tensor a = doubles({1.7}).requires_grad_();
  EXPECT_NEAR(mean_slope(a, ds::Gamma(a, doubles({2})), [](const Tensor& x) { return x; }), 0.5, 0.01);
  EXPECT_NEAR(mean_slope(a, ds::Chi2(a), [](const Tensor& x) { return x; }), 1, 0.03);
  const double b = 2.5;  // E x = a / (a + b), by a: b / (a + b)²
  EXPECT_NEAR(mean_slope(a, ds::Beta(a, doubles({b})), [](const Tensor& x) { return x; }), b / ((1.7 + b) * (1.7 + b)),
              0.005);
  const Tensor df = doubles({9}).requires_grad_();  // E x² = df / (df - 2), by df: -2 / (df - 2)²
  EXPECT_NEAR(mean_slope(df, ds::StudentT(df), [](const Tensor& x) { return square(x); }), -2.0 / 49, 0.01);
}

}  // namespace
}  // namespace weft::testing
