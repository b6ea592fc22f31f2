#include <algorithm>
#include <cmath>
#include <numeric>

#include <weft/ops/distribution.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "values.hpp"

namespace weft::testing {
namespace {

struct Moments {
  double mean, variance;
};
Moments moments(const Doubles& x) {
  const auto n = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double squares = 0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  return {mean, squares / (n - 1)};
}

// The largest distance between the empirical and the wanted distribution function, times the root of the count: beyond
// 1.95 with probability 0.001 (Kolmogorov and Smirnov).
template <class F>
double kolmogorov(Doubles x, F&& below) {
  std::ranges::sort(x);
  const auto n = static_cast<double>(x.size());
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = below(x[i]), place = static_cast<double>(i);
    most = std::max({most, std::fabs(wanted - place / n), std::fabs((place + 1) / n - wanted)});
  }
  return most * std::sqrt(n);
}

// (chi squared - degrees of freedom) / its deviation, over the counts 0, 1, ... with an expected number of 20 or more.
template <class F>
double chi_square(const Doubles& x, int values, F&& probability) {
  std::vector<double> seen(static_cast<size_t>(values));
  for (const double v : x) {
    if (v < values) seen[static_cast<size_t>(v)] += 1;
  }
  const auto n = static_cast<double>(x.size());
  double total = 0, rest = n, rest_seen = n;
  int cells = 0;
  for (int k = 0; k < values; ++k) {
    const double wanted = n * probability(k);
    if (wanted < 20) continue;
    const double found = seen[static_cast<size_t>(k)];
    total += (found - wanted) * (found - wanted) / wanted;
    rest -= wanted;
    rest_seen -= found;
    ++cells;
  }
  if (rest > 20) total += (rest_seen - rest) * (rest_seen - rest) / rest;
  const double freedom = cells - (rest > 20 ? 0 : 1);
  return (total - freedom) / std::sqrt(2 * freedom);
}

Tensor filled(double value, int64_t count = 40000) { return full({count}, value, f64); }

// ---- continuous -----------------------------------------------------------------------------------------------------

TEST(Distributions, NormalHasTheMeansAndDeviationsGiven) {
  Generator g(1);
  const Tensor mean = tensor({-3.0, 5.0}, f64), deviation = tensor({{0.5}, {2.0}}, f64);
  const Tensor x = normal(mean.expand({20000, 2}).unsqueeze(1), deviation, &g);
  EXPECT_EQ(x.shape(), (Dims{20000, 2, 2}));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const Moments m = moments(values(x.select(1, i).select(1, j)));
      const double wanted = i == 0 ? 0.5 : 2;
      EXPECT_NEAR(m.mean, j == 0 ? -3 : 5, 0.05);
      EXPECT_NEAR(std::sqrt(m.variance), wanted, 0.03 * wanted);
    }
  }
  const Doubles z = values(normal(1, 2, {40000}, {.dtype = f64}, &g));
  EXPECT_LT(kolmogorov(z, [](double v) { return 0.5 * std::erfc(-(v - 1) / 2 / std::sqrt(2)); }), 1.95);
  EXPECT_EQ(normal(zeros({3}, f16), 1.0).dtype(), f16);
  EXPECT_EQ(normal(zeros({3}, f32), ones({3}, f64)).dtype(), f64);
  EXPECT_EQ(normal(0, 1, {2, 0}).shape(), (Dims{2, 0}));
}

TEST(Distributions, InPlaceOnesHaveTheirDistributionFunctions) {
  for (const DType dtype : {f32, f64}) {
    Generator g(2);
    const Tensor x = empty({40000}, dtype);
    EXPECT_LT(kolmogorov(values(exponential_(x, 1.5, &g)), [](double v) { return 1 - std::exp(-1.5 * v); }), 1.95);
    EXPECT_LT(kolmogorov(values(cauchy_(x, 1, 2, &g)), [](double v) { return 0.5 + std::atan((v - 1) / 2) / M_PI; }),
              1.95);
    const auto log_normal = [](double v) { return 0.5 * std::erfc(-(std::log(v) - 0.5) / 0.7 / std::sqrt(2)); };
    EXPECT_LT(kolmogorov(values(log_normal_(x, 0.5, 0.7, &g)), log_normal), 1.95);
    const auto geometric = [](int k) { return k == 0 ? 0 : 0.3 * std::pow(0.7, k - 1); };
    EXPECT_LT(chi_square(values(geometric_(x, 0.3, &g)), 60, geometric), 4);
  }
}

TEST(Distributions, GeometricFitsItsDtype) {
  const Doubles narrow = values(geometric_(empty({2000}, i8), 1e-4));
  EXPECT_EQ(std::ranges::max(narrow), 127);
  EXPECT_GE(std::ranges::min(narrow), 1);
  const Tensor wide = geometric_(empty({1000}, i64), 1e-300);
  EXPECT_GE(wide.min().item<int64_t>(), 1);
  EXPECT_GE(geometric_(empty({1000}, u64), 1e-300).min().item<uint64_t>(), 1u);
}

TEST(Distributions, GammaHasItsMomentsAndDistributionFunction) {
  Generator g(3);
  for (const double alpha : {0.1, 0.5, 1.0, 2.5, 50.0, 1e6}) {
    const Moments m = moments(values(standard_gamma(filled(alpha), &g)));
    EXPECT_NEAR(m.mean, alpha, 5 * std::sqrt(alpha / 40000)) << alpha;
    EXPECT_NEAR(m.variance / alpha, 1, 0.05 + 0.2 / std::sqrt(alpha) * 0.5) << alpha;
  }
  EXPECT_LT(kolmogorov(values(standard_gamma(filled(1), &g)), [](double v) { return 1 - std::exp(-v); }), 1.95);
  const auto of_two = [](double v) { return 1 - std::exp(-v) * (1 + v); };
  EXPECT_LT(kolmogorov(values(standard_gamma(filled(2), &g)), of_two), 1.95);
  EXPECT_LT(kolmogorov(values(standard_gamma(filled(0.5), &g)), [](double v) { return std::erf(std::sqrt(v)); }), 1.95);
  for (const DType dtype : {f16, bf16, f32, f64}) {
    EXPECT_GT(standard_gamma(full({100}, 1e-6, dtype), &g).min().item<double>(), 0);
    EXPECT_GT(standard_gamma(zeros({3}, dtype), &g).min().item<double>(), 0);
  }
}

// ---- counts ---------------------------------------------------------------------------------------------------------

TEST(Distributions, PoissonHasItsProbabilities) {
  Generator g(4);
  for (const double rate : {0.3, 4.0, 9.9, 10.0, 35.0, 1000.0}) {
    const Doubles x = values(poisson(filled(rate), &g));
    const auto probability = [&](int k) { return std::exp(k * std::log(rate) - rate - std::lgamma(k + 1)); };
    EXPECT_LT(chi_square(x, 2000, probability), 4) << rate;
    const Moments m = moments(x);
    EXPECT_NEAR(m.mean, rate, 5 * std::sqrt(rate / 40000)) << rate;
    EXPECT_NEAR(m.variance / rate, 1, 0.05) << rate;
  }
  expect_values(poisson(zeros({3}), &g), {0, 0, 0});
  EXPECT_NEAR(poisson(filled(1e12, 1), &g).item<double>(), 1e12, 1e7);
}

TEST(Distributions, BinomialHasItsProbabilities) {
  Generator g(5);
  for (const auto& [n, p] :
       {std::pair{5.0, 0.3}, {20.0, 0.9}, {100.0, 0.5}, {1000.0, 0.03}, {400.0, 0.97}, {60.0, 0.2}}) {
    const Doubles x = values(binomial(filled(n), filled(p, 1), &g));
    const auto probability = [&, n = n, p = p](int k) {
      const double ways = std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
      return std::exp(ways + k * std::log(p) + (n - k) * std::log1p(-p));
    };
    EXPECT_LT(chi_square(x, static_cast<int>(n) + 1, probability), 4) << n << " " << p;
    EXPECT_LE(std::ranges::max(x), n);
    EXPECT_NEAR(moments(x).mean, n * p, 5 * std::sqrt(n * p * (1 - p) / 40000));
  }
  expect_values(binomial(tensor({4.0, 4.0, 0.0, 3.7}, f64), tensor({0.0, 1.0, 0.5, 1.0}, f64), &g), {0, 4, 0, 3});
  EXPECT_NEAR(binomial(filled(1e15, 1), filled(0.25, 1), &g).item<double>(), 2.5e14, 2e8);
  EXPECT_EQ(binomial(ones({2, 1}), ones({3})).shape(), (Dims{2, 3}));
}

TEST(Distributions, MultinomialFollowsTheWeights) {
  Generator g(6);
  const Tensor weights = tensor({0.0, 1.0, 4.0, 0.0, 3.0, 2.0}, f64);
  const auto probability = [](int k) {
    constexpr double each[] = {0, 0.1, 0.4, 0, 0.3, 0.2};
    return each[k];
  };
  const Doubles again = values(multinomial(weights, 40000, true, &g));
  EXPECT_LT(chi_square(again, 6, probability), 4);
  EXPECT_EQ(std::ranges::count(again, 0) + std::ranges::count(again, 3), 0);
  // The first draw without replacement follows the weights, the next the remaining ones.
  const Tensor once = multinomial(weights.expand({40000, 6}), 4, false, &g);
  EXPECT_LT(chi_square(values(once.select(1, 0)), 6, probability), 4);
  const auto second = [&](int k) {
    double total = 0;
    for (int first = 0; first < 6; ++first) {
      if (first != k) total += probability(first) * probability(k) / (1 - probability(first));
    }
    return total;
  };
  EXPECT_LT(chi_square(values(once.select(1, 1)), 6, second), 4);
  for (int row = 0; row < 50; ++row) {
    Doubles seen = values(once.select(0, row));
    std::ranges::sort(seen);
    EXPECT_EQ(seen, (Doubles{1, 2, 4, 5})) << "those of weight 0 are never chosen";
  }
  EXPECT_EQ(multinomial(full({3}, 1e308, f64), 2, true).dtype(), i64);
  EXPECT_EQ(multinomial(zeros({0, 3}), 2).shape(), (Dims{0, 2}));
}

// ---- generators, errors ---------------------------------------------------------------------------------------------

TEST(Distributions, CountersFollowTheSizesAlone) {
  const auto used = [](auto&& draw) {
    Generator g(7);
    draw(&g);
    return g.state().offset;
  };
  EXPECT_EQ(used([](Generator* g) { poisson(full({5}, 0.1), g); }), 5u);
  EXPECT_EQ(used([](Generator* g) { poisson(full({5}, 1e5), g); }), 5u);
  EXPECT_EQ(used([](Generator* g) { standard_gamma(full({5}, 1e-3), g); }), 5u);
  EXPECT_EQ(used([](Generator* g) { binomial(full({5}, 9.0), full({1}, 0.5), g); }), 5u);
  EXPECT_EQ(used([](Generator* g) { multinomial(ones({2, 3}), 2, false, g); }), 6u);
  EXPECT_EQ(used([](Generator* g) { multinomial(ones({2, 3}), 7, true, g); }), 14u);
  Generator a(8), b(8);
  EXPECT_EQ(values(poisson(filled(30, 100), &a)), values(poisson(filled(30, 100), &b)));
  EXPECT_NE(values(poisson(filled(30, 100), &a)), values(poisson(filled(3, 100), &a)));
}

TEST(Distributions, RandintLikeTakesTheShapeAndDtype) {
  const Tensor x = randint_like(zeros({1000}, f16), -2, 3);
  EXPECT_EQ(x.dtype(), f16);
  EXPECT_EQ(x.min().item<double>(), -2);
  EXPECT_EQ(x.max().item<double>(), 2);
  EXPECT_THROW(randint_like(zeros({3}), 3, 3), ValueError);
  EXPECT_THROW(randint_like(zeros({3}, u8), 0, 300), ValueError);
}

TEST(Distributions, RejectInvalidParameters) {
  const Tensor x = zeros({3}), n = zeros({3}, i64);
  EXPECT_THROW(normal(x, -1.0), ValueError);
  EXPECT_THROW(normal(x, tensor({1.0, -1.0, 1.0})), ValueError);
  EXPECT_THROW(normal(n, n), DTypeError);
  EXPECT_THROW(normal(x, ones({2})), ShapeError);
  EXPECT_THROW(normal(0, -1, {3}), ValueError);
  EXPECT_THROW(normal(0, 1, {3}, {.dtype = i64}), DTypeError);
  EXPECT_THROW(exponential_(x, 0), ValueError);
  EXPECT_THROW(exponential_(n), DTypeError);
  EXPECT_THROW(geometric_(x, 0), ValueError);
  EXPECT_THROW(geometric_(x, 1), ValueError);
  EXPECT_THROW(geometric_(x, nan), ValueError);
  EXPECT_THROW(cauchy_(x, 0, -1), ValueError);
  EXPECT_THROW(log_normal_(x, 0, 0), ValueError);
  EXPECT_THROW(exponential_(x.expand({2, 3})), ValueError);
  EXPECT_THROW(exponential_(zeros({2}, {.requires_grad = true})), AutogradError);
  for (const double wrong : {-1.0, nan, infinity}) {
    EXPECT_THROW(poisson(full({1}, wrong)), ValueError);
    EXPECT_THROW(standard_gamma(full({1}, wrong)), ValueError);
    EXPECT_THROW(binomial(full({1}, wrong), full({1}, 0.5)), ValueError);
    EXPECT_THROW(binomial(full({1}, 3.0), full({1}, wrong)), ValueError);
    EXPECT_THROW(multinomial(tensor({1.0, wrong}), 1), ValueError);
  }
  EXPECT_THROW(poisson(n), DTypeError);
  EXPECT_THROW(binomial(x, zeros({3}, f64)), DTypeError);
  EXPECT_THROW(binomial(x, zeros({2})), ShapeError);
  EXPECT_THROW(multinomial(x, 1), ValueError);
  EXPECT_THROW(multinomial(n, 1), DTypeError);
  EXPECT_THROW(multinomial(ones({3}), 4), ValueError);
  EXPECT_THROW(multinomial(tensor({0.0, 1.0, 0.0, 2.0}), 3), ValueError);
  EXPECT_THROW(multinomial(tensor({{1.0, 1.0, 1.0}, {0.0, 1.0, 1.0}}), 3), ValueError);
  EXPECT_NO_THROW(multinomial(tensor({0.0, 1.0, 0.0, 2.0}), 3, true));
  EXPECT_NO_THROW(multinomial(tensor({0.0, 1e-320, 1e300}, f64), 2)) << "small beside others is not 0";
  EXPECT_THROW(multinomial(ones({3}), 0, true), ValueError);
  EXPECT_THROW(multinomial(ones({}), 1), ShapeError);
  EXPECT_THROW(multinomial(ones({1, 2, 3}), 1), ShapeError);
  EXPECT_ANY_THROW(multinomial(ones({3}), int64_t{1} << 62, true));
}

}  // namespace
}  // namespace weft::testing
