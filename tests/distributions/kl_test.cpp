// Divergences against means over draws, for every pair that has a formula.
#include <map>

#include <gmock/gmock.h>

#include <weft/ops/matmul.hpp>
#include <weft/ops/reduce.hpp>

#include "../message_of.hpp"
#include "kinds.hpp"

namespace weft::testing {
namespace {

using ds::Distribution;

/// Of a kind by its name; `other` has other parameters.
Distribution made(const std::string& name, bool other) {
  for (const KindCase& c : kinds()) {
    if (c.name != name) continue;
    if (!other) return c.make(c.parameters);
    std::vector<Tensor> changed;
    const bool chances = name == "Bernoulli" || name == "Binomial" || name == "Geometric" || name == "Uniform";
    for (const Tensor& t : c.parameters) changed.push_back(chances ? t * 0.8 + 0.05 : t * 1.25);
    if (name == "TransformedDistribution") changed[0] = c.parameters[0] + 0.5;
    return c.make(changed);
  }
  throw std::runtime_error("no kind " + name);
}

TEST(Divergence, IsTheMeanOfTheDifferenceOfLogarithmsForEveryPair) {
  constexpr int64_t count = 60000;
  int finite = 0, endless = 0;
  for (const auto& [p_name, q_name] : ds::kl_pairs()) {
    // Narrow, so that it is inside bounded supports.
    const bool bounded = std::string(q_name) == "Uniform" && std::string(p_name) == "Beta";
    const Distribution p =
        std::string(p_name) == "Uniform" ? ds::Uniform(doubles({0.1, 0.3}), doubles({0.6, 0.8})) : made(p_name, false);
    const Distribution q = bounded ? ds::Uniform(doubles({-0.5, 0}), doubles({1, 1.5}))
                           : std::string(q_name) == "Uniform" && std::string(p_name) == "Uniform"
                               ? ds::Uniform(doubles({0, 0.3}), doubles({1, 0.9}))
                               : made(q_name, true);
    const Tensor exact = kl(p, q);
    if (any(isinf(exact)).item<bool>()) {
      ++endless;
      Generator generator(3);
      EXPECT_FALSE(all(q.in_support(p.sample({1000}, &generator))).item<bool>()) << p_name << ", " << q_name;
      continue;
    }
    ++finite;
    Generator generator(3);
    const Tensor x = p.sample({count}, &generator), each = p.log_prob(x) - q.log_prob(x);
    const Doubles off = values(abs(mean(each, {0}) - exact) / (sqrt(var(each, {0}) / double(count)) + 1e-12));
    for (const double v : off) EXPECT_LT(v, 5) << p_name << ", " << q_name;
  }
  EXPECT_GE(finite, 35);
  EXPECT_GE(endless, 15);
}

TEST(Divergence, IsZeroFromItself) {
  for (const auto& [p_name, q_name] : ds::kl_pairs()) {
    if (std::string(p_name) != q_name) continue;
    const Distribution p = made(p_name, false);
    for (const double v : values(kl(p, p))) EXPECT_NEAR(v, 0, 1e-12) << p_name;
  }
}

TEST(Divergence, HasFirstAndSecondDerivatives) {
  const auto leaves = [](const char* name) {
    for (const KindCase& c : kinds()) {
      if (c.name == name) {
        std::vector<Tensor> out;
        for (const Tensor& t : c.parameters) out.push_back(t.clone().requires_grad_());
        return out;
      }
    }
    return std::vector<Tensor>();
  };
  for (const char* name : {"Normal", "Gamma", "Beta", "Dirichlet", "MultivariateNormal", "Categorical", "Bernoulli"}) {
    for (const KindCase& c : kinds()) {
      if (c.name != name) continue;
      const Distribution q = made(name, true);
      expect_gradients([&](Inputs p) { return kl(c.make(p), q); }, leaves(name));
    }
  }
}

TEST(Divergence, NamesAPairThatHasNone) {
  const std::string text =
      message_of<NotImplementedError>([] { static_cast<void>(kl(ds::Normal(0.0, 1.0), ds::Poisson(1.0))); });
  EXPECT_THAT(text, ::testing::HasSubstr("Normal from Poisson"));
  EXPECT_THAT(text, ::testing::HasSubstr("kl_test.cpp"));
}

}  // namespace
}  // namespace weft::testing
