// Densities and moments against SciPy, and rejected arguments.
#include <gmock/gmock.h>

#include <weft/ops/matmul.hpp>
#include <weft/ops/reduce.hpp>

#include "../message_of.hpp"
#include "kinds.hpp"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;

TEST(Densities, AnswerAsSciPy) {
  // scipy.stats 1.17: logpdf and logpmf of the same parameters
  expect_values(
      ds::MultivariateNormal(doubles({0.5, -1, 2}),
                             {.covariance_matrix = doubles({2, 0.5, 0.25, 0.5, 1.5, -0.5, 0.25, -0.5, 1}, {3, 3})})
          .log_prob(doubles({0.25, -1.75, 0.5})),
      {-5.371718206238897});
  expect_values(ds::Dirichlet(doubles({0.5, 1.5, 3})).log_prob(doubles({0.2, 0.3, 0.5})), {0.8497621374327373});
  expect_values(ds::Binomial(6, doubles({0.25})).log_prob(doubles({0, 2, 6})), {-1.72609243, -1.21526681, -8.31776617},
                1e-8);
  expect_values(ds::Geometric(doubles({0.25})).log_prob(doubles({0, 3})), {-1.38629436, -2.24934058}, 1e-8);
  const ds::Distribution counts = ds::Multinomial(5, doubles({0.2, 0.35, 0.45}));
  expect_values(counts.log_prob(doubles({2, 1, 2})), {-2.4645159601402655});
  expect_values(counts.entropy(), {2.6233947865661773}, 1e-10);
  expect_values(ds::Gumbel(0.5, doubles({2})).cdf(doubles({-1, 3})), {0.12039226, 0.75088348}, 1e-7);
  expect_values(ds::Beta(0.5, doubles({1.5})).entropy(), {-0.5484172947105452});
  expect_values(ds::Chi2(doubles({3})).log_prob(doubles({2})), {-1.5723649429247});
  expect_values(ds::Poisson(doubles({2.5})).log_prob(doubles({0, 4})), {-2.5, -2.0128909}, 1e-7);
  const ds::Distribution student = ds::StudentT(doubles({3.5}), 0.25, 1.5);
  expect_values(student.log_prob(doubles({1})), {-1.550172660213307});
  expect_values(student.entropy(), {2.126355228790631});
  expect_values(ds::HalfNormal(doubles({2})).cdf(doubles({1})), {0.3829249225480261});
  expect_values(ds::Laplace(0.5, doubles({2})).icdf(doubles({0.9})), {3.718875824868201});
  expect_values(ds::LogNormal(0.5, doubles({2})).cdf(doubles({1.5})), {0.48115003672075496});
}

TEST(Densities, OfValuesThatCanBeCountedAddUpToOne) {
  const Tensor p = doubles({0.25, 0.7});
  for (const ds::Distribution& d :
       {ds::Bernoulli(p), ds::Binomial(6, p), ds::Categorical(p), ds::OneHotCategorical(p)}) {
    const Tensor total = sum(exp(d.log_prob(d.enumerate_support())), {0});
    for (const double v : values(total)) EXPECT_NEAR(v, 1, 1e-12) << d.name();
  }
  EXPECT_THROW(static_cast<void>(ds::Normal(0.0, 1.0).enumerate_support()), NotImplementedError);
  EXPECT_THROW(static_cast<void>(ds::Binomial(doubles({2, 3}), p).enumerate_support()), NotImplementedError);
}

TEST(Parameters, ArePromotedAsOperandsAre) {
  EXPECT_EQ(ds::Normal(0.0, 1.0).sample().dtype(), f32);
  EXPECT_EQ(ds::Normal(zeros({2}, f64), 1.0).sample().dtype(), f64);
  EXPECT_EQ(ds::Normal(0, ones({3}, i64)).sample().dtype(), f32);
  EXPECT_EQ(ds::Normal(zeros({2, 1}), ones({3}, bf16)).sample().dtype(), f32);
  EXPECT_EQ(ds::Normal(zeros({2, 1}), ones({3})).batch_shape(), (Dims{2, 3}));
  EXPECT_EQ(ds::Binomial(4, doubles({0.5})).sample().dtype(), f64);
  EXPECT_EQ(ds::Bernoulli(0.25).parameter("probs").item<double>(), 0.25);
}

TEST(Parameters, AreFoundByName) {
  expect_values(ds::Bernoulli(ds::Logits{doubles({0})}).parameter("probs"), {0.5});
  expect_values(ds::Chi2(doubles({3})).parameter("df"), {3});
  const Tensor covariance = doubles({2, 0.5, 0.5, 1}, {2, 2});
  const ds::Distribution d = ds::MultivariateNormal(zeros({2}, f64), {.covariance_matrix = covariance});
  expect_values(matmul(d.parameter("precision_matrix"), covariance), {1, 0, 0, 1});
  EXPECT_THROW(static_cast<void>(d.parameter("rate")), KeyError);
}

TEST(Refusals, NameTheKindTheParameterAndTheLine) {
  const auto text = message_of<ValueError>([] { static_cast<void>(ds::Normal(0.0, doubles({1, -1}))); });
  EXPECT_THAT(text, HasSubstr("parameter 'scale' of Normal is not above 0"));
  EXPECT_THAT(text, HasSubstr("distribution_test.cpp"));
  EXPECT_THAT(message_of<ValueError>([] { static_cast<void>(ds::Bernoulli(1.5)); }),
              HasSubstr("distribution_test.cpp"));
  EXPECT_THAT(message_of<ValueError>([] { static_cast<void>(ds::Exponential(1.0).log_prob(-1.0)); }),
              HasSubstr("outside of the support of Exponential"));
  EXPECT_THAT(message_of<NotImplementedError>([] { static_cast<void>(ds::Poisson(1.0).entropy()); }),
              HasSubstr("Poisson has no entropy"));
}

TEST(Refusals, AreTyped) {
  EXPECT_THROW(static_cast<void>(ds::Normal(nan, 1.0)), ValueError);
  EXPECT_THROW(static_cast<void>(ds::Uniform(1.0, 1.0)), ValueError);
  EXPECT_THROW(static_cast<void>(ds::Normal(zeros({2}), ones({3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(ds::Normal(zeros({2}), 1.0).log_prob(zeros({3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(ds::Normal(Tensor(), 1.0)), ValueError);
  EXPECT_THROW(static_cast<void>(ds::Categorical(0.5)), ShapeError);
  EXPECT_THROW(static_cast<void>(ds::Categorical(zeros({3}))), ValueError);
  EXPECT_THROW(static_cast<void>(ds::Categorical(zeros({2, 0}))), ShapeError);
  EXPECT_THROW(static_cast<void>(ds::Multinomial(-1, ones({3}))), ValueError);
  EXPECT_THROW(static_cast<void>(ds::MultivariateNormal(zeros({2}), {})), ValueError);
  EXPECT_THROW(static_cast<void>(ds::MultivariateNormal(zeros({2}), {.scale_tril = eye(3)})), ShapeError);
  EXPECT_THROW(static_cast<void>(ds::MultivariateNormal(zeros({2}), {.covariance_matrix = -eye(2)})), ValueError);
  EXPECT_THROW(static_cast<void>(ds::Independent(ds::Normal(0.0, 1.0), 1)), ShapeError);
  EXPECT_THROW(static_cast<void>(ds::MixtureSameFamily(ds::Normal(0.0, 1.0), ds::Normal(zeros({2}), 1.0))), ValueError);
  EXPECT_THROW(static_cast<void>(ds::MixtureSameFamily(ds::Categorical(ones({3})), ds::Normal(zeros({2}), 1.0))),
               ShapeError);
  EXPECT_THROW(static_cast<void>(ds::Normal(0.0, 1.0).icdf(1.5)), ValueError);
  EXPECT_THROW(static_cast<void>(ds::Normal(0.0, 1.0).sample({-1})), ShapeError);
}

TEST(Refusals, AreLeftOutWhereValidationIsOff) {
  const ds::Options off{.validate_args = false};
  EXPECT_NO_THROW(static_cast<void>(ds::Normal(0.0, -1.0, off)));
  EXPECT_TRUE(std::isnan(ds::Exponential(-1.0, off).log_prob(1.0).item<double>()));
  ds::set_default_validate_args(false);
  EXPECT_NO_THROW(static_cast<void>(ds::Normal(0.0, -1.0)));
  ds::set_default_validate_args(true);
  EXPECT_THROW(static_cast<void>(ds::Normal(0.0, -1.0)), ValueError);
}

TEST(Distributions, OfNoElementsAndOnMetaHaveShapes) {
  const ds::Distribution none = ds::Normal(zeros({0, 3}), ones({3}));
  EXPECT_EQ(none.sample({2}).shape(), (Dims{2, 0, 3}));
  EXPECT_EQ(none.log_prob(zeros({2, 0, 3})).shape(), (Dims{2, 0, 3}));
  EXPECT_EQ(ds::Categorical(ones({0, 3})).sample({2}).shape(), (Dims{2, 0}));
  EXPECT_EQ(ds::Binomial(ones({0, 2}), 0.5).entropy().shape(), (Dims{0, 2}));
  const TensorOptions meta{f32, "meta"};
  EXPECT_EQ(ds::Normal(zeros({3}, meta), ones({3}, meta)).rsample({2}).shape(), (Dims{2, 3}));
}

TEST(Distributions, StridedParametersGiveTheSameValuesAsCopies) {
  const Tensor grid = spread({4, 6}, 3, 0.5, 2), part = grid.t().narrow(0, 1, 3);
  const Tensor x = spread({3, 4}, 5, 0.5, 2);
  expect_values(ds::Gamma(part, part).log_prob(x), values(ds::Gamma(part.contiguous(), part.contiguous()).log_prob(x)));
}

}  // namespace
}  // namespace weft::testing
