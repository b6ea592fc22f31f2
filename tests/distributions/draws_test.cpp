// Draws against distribution functions, means and variances, with fixed seeds.
#include <algorithm>
#include <numeric>

#include <weft/ops/matmul.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "kinds.hpp"

namespace weft::testing {
namespace {

using ds::Distribution;

class Kinds : public ::testing::TestWithParam<KindCase> {};
INSTANTIATE_TEST_SUITE_P(All, Kinds, ::testing::ValuesIn(kinds()), [](const auto& c) { return c.param.name; });

bool is_one_of(const std::string& name, std::initializer_list<const char*> list) {
  return std::ranges::find(list, name) != list.end();
}

TEST_P(Kinds, DrawsHaveTheShapeOfDrawsBatchAndEvent) {
  const Distribution d = GetParam().make(GetParam().parameters);
  Dims wanted{3, 2};
  for (const int64_t n : d.batch_shape()) wanted.push_back(n);
  for (const int64_t n : d.event_shape()) wanted.push_back(n);
  EXPECT_EQ(d.sample({3, 2}).shape(), wanted);
  EXPECT_EQ(d.sample({0}).numel(), 0);
  EXPECT_EQ(d.sample().dim(), d.batch_shape().size() + d.event_shape().size());
}

TEST_P(Kinds, DrawsAreReproducibleAndInTheSupport) {
  const Distribution d = GetParam().make(GetParam().parameters);
  Generator first(11), second(11);
  const Tensor x = d.sample({500}, &first);
  EXPECT_TRUE(equal(x, d.sample({500}, &second)));
  EXPECT_FALSE(equal(x, d.sample({500}, &second)));
  EXPECT_TRUE(all(d.in_support(x)).item<bool>());
  EXPECT_TRUE(all(isfinite(d.log_prob(x))).item<bool>());
}

TEST_P(Kinds, DrawsHaveTheMeanAndTheVariance) {
  if (is_one_of(GetParam().name, {"Cauchy", "Categorical", "TransformedDistribution"})) return;  // has no mean
  const Distribution d = GetParam().make(GetParam().parameters);
  constexpr int64_t count = 40000;
  Generator generator(5);
  const Tensor x = d.sample({count}, &generator).to(f64), variance = d.variance();
  const Tensor sample_mean = mean(x, {0}), sample_variance = var(x, {0});
  const Doubles off = values(abs(sample_mean - d.mean()) / sqrt(variance / double(count)));
  EXPECT_LT(*std::ranges::max_element(off), 4.5);
  const Tensor fourth = mean(square(square(x - sample_mean)), {0});
  const Doubles spread = values(abs(sample_variance - variance) / sqrt((fourth - square(variance)) / double(count)));
  EXPECT_LT(*std::ranges::max_element(spread), 5);
}

TEST_P(Kinds, DrawsFollowTheDistributionFunction) {
  if (!is_one_of(GetParam().name, {"Normal", "LogNormal", "HalfNormal", "Uniform", "Laplace", "Cauchy", "Gumbel",
                                   "Exponential", "Gamma", "Chi2", "MixtureSameFamily", "TransformedDistribution"})) {
    return;
  }
  const Distribution d = GetParam().make(GetParam().parameters);
  constexpr int64_t count = 20000;
  Generator generator(7);
  const Tensor u = d.cdf(d.sample({count}, &generator)).reshape({count, -1});
  for (int64_t column = 0; column < u.size(1); ++column) {
    Doubles each = values(u.select(1, column).contiguous());
    std::ranges::sort(each);
    double most = 0;
    for (size_t i = 0; i < each.size(); ++i) {
      const double n = static_cast<double>(count), place = static_cast<double>(i);
      most = std::max({most, std::fabs(each[i] - place / n), std::fabs((place + 1) / n - each[i])});
    }
    EXPECT_LT(most * std::sqrt(count), 1.95) << "Kolmogorov and Smirnov, beyond it with probability 0.001";
  }
}

TEST_P(Kinds, TheInverseOfTheDistributionFunctionGoesBack) {
  const Distribution d = GetParam().make(GetParam().parameters);
  const Tensor p = doubles({0.125, 0.75});
  Tensor x;
  try {
    x = d.icdf(p);
  } catch (const NotImplementedError&) {
    return;  // has none
  }
  expect_values(d.cdf(x), values(p), 1e-9);
}

TEST_P(Kinds, ExpandedOnesAreTheSameDistribution) {
  const Distribution d = GetParam().make(GetParam().parameters);
  Dims batch = d.batch_shape();
  batch.insert(0, 3);
  const Distribution wide = d.expand(batch);
  EXPECT_EQ(wide.batch_shape(), batch);
  EXPECT_EQ(wide.event_shape(), d.event_shape());
  Generator generator(3);
  const Tensor x = wide.sample({4}, &generator);
  expect_values(wide.log_prob(x), values(d.log_prob(x)));
  if (!d.batch_shape().empty()) {
    EXPECT_THROW(static_cast<void>(d.expand({17})), ShapeError);
  }
}

TEST_P(Kinds, DensitiesHaveFirstAndSecondDerivatives) {
  const KindCase& c = GetParam();
  Generator generator(2);
  const Tensor x = c.make(c.parameters).sample({2}, &generator);
  std::vector<Tensor> leaves;
  for (const Tensor& t : c.parameters) leaves.push_back(t.clone().requires_grad_());
  expect_gradients([&](Inputs p) { return c.make(p).log_prob(x); }, leaves);
  if (is_one_of(c.name, {"MixtureSameFamily", "TransformedDistribution", "Poisson"})) return;
  expect_gradients([&](Inputs p) { return c.make(p).entropy(); }, leaves);
}

TEST_P(Kinds, DensitiesHaveDerivativesByTheValue) {
  const KindCase& c = GetParam();
  const Distribution d = c.make(c.parameters);
  if (!d.has_rsample() && c.name != "MixtureSameFamily") return;  // is discrete
  if (c.name == "Dirichlet") return;                              // its values cannot move one by one
  Generator generator(2);
  const Tensor x = d.sample({2}, &generator).requires_grad_();
  expect_gradients([&](Inputs v) { return d.log_prob(v[0]); }, {x});
}

TEST_P(Kinds, ReparametrisedDrawsHaveFirstAndSecondDerivatives) {
  const KindCase& c = GetParam();
  if (!c.make(c.parameters).has_rsample()) {
    EXPECT_THROW(static_cast<void>(c.make(c.parameters).rsample({2})), NotImplementedError);
    return;
  }
  // Draws of gamma numbers are rejected by their shape; gamma_test.cpp has their derivatives.
  if (is_one_of(c.name, {"StudentT", "Gamma", "Chi2", "Beta", "Dirichlet"})) return;
  std::vector<Tensor> leaves;
  for (const Tensor& t : c.parameters) leaves.push_back(t.clone().requires_grad_());
  expect_gradients(
      [&](Inputs p) {
        Generator generator(4);
        return c.make(p).rsample({2}, &generator);
      },
      leaves);
}

TEST_P(Kinds, SampleHasNoGradient) {
  const KindCase& c = GetParam();
  std::vector<Tensor> leaves;
  for (const Tensor& t : c.parameters) leaves.push_back(t.clone().requires_grad_());
  EXPECT_FALSE(c.make(leaves).sample({2}).requires_grad());
}

TEST(Draws, ClassesComeAsOftenAsTheirChancesSay) {
  const Tensor p = doubles({0.1, 0.2, 0.7});
  Generator generator(1);
  const Tensor x = ds::Categorical(p).sample({30000}, &generator);
  for (int64_t k = 0; k < 3; ++k) {
    const double wanted = p.to_vector<double>()[static_cast<size_t>(k)];
    const double share = mean((x == k).to(f64)).item<double>();
    EXPECT_NEAR(share, wanted, 4.5 * std::sqrt(wanted * (1 - wanted) / 30000));
  }
}

TEST(Draws, OfStudentsWithTwoDegreesFollowTheirDistributionFunction) {
  Generator generator(9);
  Doubles x = values(ds::StudentT(full({20000}, 2.0, f64)).sample({}, &generator));
  std::ranges::sort(x);
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = 0.5 + x[i] / (2 * std::sqrt(2 + x[i] * x[i]));
    most = std::max(most, std::fabs(wanted - static_cast<double>(i) / 20000));
  }
  EXPECT_LT(most * std::sqrt(20000), 1.95);
}

TEST(Draws, OfFloatsAreFloatsAndFinite) {
  Generator generator(2);
  const Tensor tiny = full({20000}, 0.001);
  EXPECT_EQ(ds::Dirichlet(full({5000, 3}, 0.01)).sample({}, &generator).dtype(), f32);
  EXPECT_TRUE(all(isfinite(ds::Dirichlet(full({5000, 3}, 0.01)).sample({}, &generator))).item<bool>());
  EXPECT_TRUE(all(isfinite(ds::Beta(tiny, tiny).sample({}, &generator))).item<bool>());
  EXPECT_TRUE(all(isfinite(ds::Laplace(0.0, ones({1000000})).sample({}, &generator))).item<bool>());
  EXPECT_TRUE(all(isfinite(ds::Gumbel(0.0, ones({1000000})).sample({}, &generator))).item<bool>());
}

}  // namespace
}  // namespace weft::testing
