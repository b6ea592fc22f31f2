// Every kind of distribution with parameters in f64, for tests that hold for all of them.
#pragma once

#include <functional>
#include <string>

#include <weft/distributions/distribution.hpp>
#include <weft/ops/matmul.hpp>

#include "../ops/values.hpp"

namespace weft::testing {

namespace ds = weft::distributions;

struct KindCase {
  std::string name;
  std::vector<Tensor> parameters;
  std::function<ds::Distribution(Inputs)> make;
};
// Google Test prints it.
inline void PrintTo(const KindCase& c, std::ostream* out) { *out << c.name; }

inline std::vector<KindCase> kinds() {
  const Tensor loc = doubles({0.5, -1.25}), scale = doubles({0.75, 2}), other = doubles({1.5, 3.25});
  const Tensor chances = doubles({0.25, 0.7}), several = doubles({0.2, 0.35, 0.45, 0.5, 0.1, 0.4}, {2, 3});
  const Tensor factor = doubles({1.5, 0, 0.5, 0.75}, {2, 2}), covariance = matmul(factor, factor.t());
  return {
      {"Normal", {loc, scale}, [](Inputs p) { return ds::Normal(p[0], p[1]); }},
      {"LogNormal", {loc, 0.25 * scale}, [](Inputs p) { return ds::LogNormal(p[0], p[1]); }},
      {"HalfNormal", {scale}, [](Inputs p) { return ds::HalfNormal(p[0]); }},
      {"Uniform", {loc, loc + scale}, [](Inputs p) { return ds::Uniform(p[0], p[1]); }},
      {"Laplace", {loc, scale}, [](Inputs p) { return ds::Laplace(p[0], p[1]); }},
      {"Cauchy", {loc, scale}, [](Inputs p) { return ds::Cauchy(p[0], p[1]); }},
      {"Gumbel", {loc, scale}, [](Inputs p) { return ds::Gumbel(p[0], p[1]); }},
      {"StudentT", {other + 4.0, loc, scale}, [](Inputs p) { return ds::StudentT(p[0], p[1], p[2]); }},
      {"Exponential", {scale}, [](Inputs p) { return ds::Exponential(p[0]); }},
      {"Gamma", {scale, other}, [](Inputs p) { return ds::Gamma(p[0], p[1]); }},
      {"Chi2", {other}, [](Inputs p) { return ds::Chi2(p[0]); }},
      {"Beta", {scale, other}, [](Inputs p) { return ds::Beta(p[0], p[1]); }},
      {"Bernoulli", {chances}, [](Inputs p) { return ds::Bernoulli(p[0]); }},
      {"BernoulliByLogits", {loc}, [](Inputs p) { return ds::Bernoulli(ds::Logits{p[0]}); }},
      {"Binomial", {chances}, [](Inputs p) { return ds::Binomial(7, p[0]); }},
      {"Geometric", {chances}, [](Inputs p) { return ds::Geometric(p[0]); }},
      {"Poisson", {other}, [](Inputs p) { return ds::Poisson(p[0]); }},
      {"Categorical", {several}, [](Inputs p) { return ds::Categorical(p[0]); }},
      {"OneHotCategorical", {several}, [](Inputs p) { return ds::OneHotCategorical(p[0]); }},
      {"Multinomial", {several}, [](Inputs p) { return ds::Multinomial(5, p[0]); }},
      {"Dirichlet", {several * 5.0}, [](Inputs p) { return ds::Dirichlet(p[0]); }},
      {"MultivariateNormal",
       {loc, covariance},
       [](Inputs p) { return ds::MultivariateNormal(p[0], {.covariance_matrix = 0.5 * (p[1] + p[1].t())}); }},
      {"Independent", {loc, scale}, [](Inputs p) { return ds::Independent(ds::Normal(p[0], p[1]), 1); }},
      {"MixtureSameFamily",
       {chances, loc, scale},
       [](Inputs p) { return ds::MixtureSameFamily(ds::Categorical(p[0]), ds::Normal(p[1], p[2])); }},
      {"TransformedDistribution",
       {loc, 0.25 * scale},
       [](Inputs p) {
         return ds::TransformedDistribution(ds::Normal(p[0], p[1]),
                                            {ds::AffineTransform(0.5, -2.0), ds::TanhTransform()});
       }},
  };
}

}  // namespace weft::testing
