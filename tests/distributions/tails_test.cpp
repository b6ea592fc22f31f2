// Distributions far out and at the ends of their parameters; tests/python/test_distribution_tails.py has more, beside
// SciPy.
#include <cmath>

#include <gtest/gtest.h>

#include <weft/distributions/distribution.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

namespace ds = distributions;

Tensor number(double x) { return tensor(x, f64); }

void expect_near(const Tensor& got, double wanted) {
  EXPECT_NEAR(got.item<double>(), wanted, 1e-12 * std::fabs(wanted));
}

TEST(DistributionTails, AreComputedFromTheNearerEnd) {
  const ds::Distribution normal = ds::Normal(number(0), number(1)), laplace = ds::Laplace(number(0), number(1)),
                         cauchy = ds::Cauchy(number(0), number(1));
  expect_near(normal.cdf(number(-9)), 1.1285884059538405e-19);
  expect_near(normal.icdf(number(1e-20)), -9.262340089798409);
  expect_near(laplace.cdf(number(-100)), 0.5 * std::exp(-100));
  expect_near(laplace.icdf(number(1e-20)), std::log(2e-20));
  expect_near(cauchy.cdf(number(-1e20)), 1e-20 / M_PI);
  expect_near(cauchy.icdf(number(1e-20)), -1e20 / M_PI);
  expect_near(cauchy.log_prob(number(1e200)), -std::log(M_PI) - 400 * std::log(10.0));
  const Tensor tail = ds::LogNormal(number(0), number(1)).cdf(number(std::exp(-9.0)));
  EXPECT_NEAR(tail.item<double>(), 1.1285884059538405e-19, 1e-31);
}

TEST(DistributionTails, StudentsLogarithmIsFinite) {
  const ds::Distribution t = ds::StudentT(number(3), number(0), number(1));
  EXPECT_NEAR(t.log_prob(number(1e200)).item<double>(), -1840.8717386675239, 1e-9);
  const ds::Distribution wide = ds::StudentT(tensor(1e6), tensor(0.0), tensor(1.0));
  EXPECT_NEAR(wide.log_prob(tensor(0.0)).item<double>(), -0.918939, 1e-5);
}

TEST(DistributionTails, CertainOutcomesAreCertain) {
  for (const double p : {0.0, 1.0}) {
    const ds::Distribution coin = ds::Bernoulli(number(p)), five = ds::Binomial(5.0, number(p));
    EXPECT_EQ(coin.log_prob(number(p)).item<double>(), 0);
    EXPECT_EQ(coin.log_prob(number(1 - p)).item<double>(), -HUGE_VAL);
    EXPECT_EQ(five.log_prob(number(5 * p)).item<double>(), 0);
    EXPECT_EQ(coin.entropy().item<double>(), 0);
  }
}

TEST(DistributionTails, DivergencesOfDegenerateParameters) {
  EXPECT_EQ(ds::kl(ds::Poisson(number(0)), ds::Poisson(number(1))).item<double>(), 1);
  EXPECT_EQ(ds::kl(ds::Poisson(number(0)), ds::Poisson(number(0))).item<double>(), 0);
  EXPECT_EQ(ds::kl(ds::Poisson(number(1)), ds::Poisson(number(0))).item<double>(), HUGE_VAL);
  EXPECT_DOUBLE_EQ(ds::kl(ds::Binomial(4.0, number(0)), ds::Binomial(4.0, number(0.25))).item<double>(),
                   -4 * std::log(0.75));
  EXPECT_DOUBLE_EQ(ds::kl(ds::Geometric(number(1)), ds::Geometric(number(0.25))).item<double>(), std::log(4.0));
}

TEST(DistributionTails, TinyConcentrationsDrawTheEnds) {
  manual_seed(1);
  const Tensor x = ds::Beta(number(1e-3), number(1e-3)).sample({4000});
  EXPECT_LT((logical_and(x > 0.4, x < 0.6)).to(f64).mean().item<double>(), 0.002);
  EXPECT_NEAR((x > 0.5).to(f64).mean().item<double>(), 0.5, 0.04);
  const Tensor y = ds::Dirichlet(full({3}, 1e-30, {f64})).sample({500});
  EXPECT_FALSE(any(isnan(y)).item<bool>());
}

}  // namespace
}  // namespace weft
