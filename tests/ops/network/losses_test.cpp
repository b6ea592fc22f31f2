#include <cmath>

#include <weft/ops/distance.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/sequence.hpp>
#include <weft/ops/softmax.hpp>

#include "message_of.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

using enum LossReduction;

// ---- likelihoods ----------------------------------------------------------------------------------------------------

TEST(BinaryCrossEntropy, LogarithmsEndAtMinus100AndGradientsStayFinite) {
  const Tensor x = tensor({0.0, 1.0, 1.0}, f64).requires_grad_(), y = tensor({1.0, 0.0, 1.0}, f64);
  const Tensor losses = binary_cross_entropy(x, y, {.reduction = none});
  expect_values(losses, {100, 100, 0});
  losses.sum().backward();
  EXPECT_TRUE(isfinite(x.grad()).all().item<bool>());
}

TEST(BinaryCrossEntropy, TargetsHaveTheGradientOfBoundedLogarithms) {
  const Tensor x = tensor({0.0, 1.0, 0.25}, f64).requires_grad_(), y = tensor({0.5, 0.5, 0.5}, f64).requires_grad_();
  const Tensor loss = binary_cross_entropy(x, y, {.reduction = sum});
  const Tensor g = grad({loss}, {y}, {}, {.create_graph = true})[0];
  expect_values(g, {100, -100, std::log(3.0)});
  EXPECT_TRUE(isfinite(grad({weft::sum(g)}, {x})[0]).all().item<bool>());
  expect_gradients([](Inputs in) { return binary_cross_entropy(in[0], in[1], {.reduction = none}); },
                   {leaf({2, 3}, 1, 0.1, 0.9), leaf({2, 3}, 2, 0.1, 0.9)});
}

TEST(BinaryCrossEntropy, NumbersOutsideTheUnitIntervalAreRefused) {
  const Tensor half = full({2}, 0.5);
  EXPECT_THROW(binary_cross_entropy(tensor({0.5, 1.5}), half), ValueError);
  EXPECT_THROW(binary_cross_entropy(tensor({0.5, nan}), half), ValueError);
  EXPECT_THROW(binary_cross_entropy(half, tensor({-0.5, 1.0})), ValueError);
  EXPECT_THROW(binary_cross_entropy(half, full({1}, 0.5)), ShapeError);
  EXPECT_THROW(binary_cross_entropy(ones({2}, i64), half), DTypeError);
  EXPECT_THROW(binary_cross_entropy(half, half, {.weight = ones({3, 2})}), ShapeError);
  EXPECT_THROW(binary_cross_entropy(Tensor(), half), ValueError);
}

TEST(GaussianNll, VariancesHaveTheInputsShapeOrAlmost) {
  const Tensor x = ones({2, 3}), y = zeros({2, 3});
  EXPECT_THROW(gaussian_nll_loss(x, y, ones({3})), ShapeError);
  EXPECT_THROW(gaussian_nll_loss(x, y, ones({1, 1})), ShapeError);
  EXPECT_THROW(gaussian_nll_loss(ones({}), zeros({}), ones({1})), ShapeError);
  EXPECT_THROW(gaussian_nll_loss(x, y, -ones({2, 3})), ValueError);
  EXPECT_THROW(gaussian_nll_loss(x, y, -1.0), ValueError);
  expect_values(gaussian_nll_loss(x, y, ones({2})), {0.5});
}

TEST(GaussianNll, TheGradientPassesWhereTheVarianceIsRaised) {
  const Tensor v = tensor({0.0, 2.0}, f64).requires_grad_();
  gaussian_nll_loss(zeros({2}, f64), zeros({2}, f64), v, {.reduction = sum, .eps = 0.5}).backward();
  expect_values(v.grad(), {1.0, 0.25});
}

// ---- margins --------------------------------------------------------------------------------------------------------

TEST(MultiMargin, RejectsInvalidArguments) {
  const Tensor x = ones({2, 3}), t = zeros({2}, i64);
  EXPECT_THROW(multi_margin_loss(x, zeros({3}, i64)), ShapeError);
  EXPECT_THROW(multi_margin_loss(ones({2, 3, 1}), t), ShapeError);
  EXPECT_THROW(multi_margin_loss(ones({2, 0}), t), ShapeError);
  EXPECT_THROW(multi_margin_loss(x, t.to(f32)), DTypeError);
  EXPECT_THROW(multi_margin_loss(x, t + 3), IndexError);
  EXPECT_THROW(multi_margin_loss(x, t - 1), IndexError);
  EXPECT_THROW(multi_margin_loss(x, t, {.p = 3}), ValueError);
  EXPECT_THROW(multi_margin_loss(x, t, {.weight = ones({2})}), ShapeError);
  const std::string message = message_of<IndexError>([&] { multi_margin_loss(x, t + 7); });
  EXPECT_NE(message.find("targets: expected numbers of 3 classes, got 7"), std::string::npos) << message;
}

TEST(MultilabelMargin, TargetsEndBeforeTheFirstMinusOne) {
  const Tensor x = tensor({0.1, 0.2, 0.4, 0.8}, f64);
  expect_values(multilabel_margin_loss(x, tensor({3, 0, -1, 1})), {0.85});
  EXPECT_THROW(multilabel_margin_loss(x, tensor({3, 0, -1, 4})), IndexError);
  EXPECT_THROW(multilabel_margin_loss(x, tensor({3, -2, -1, 1})), IndexError);
  EXPECT_THROW(multilabel_margin_loss(x, tensor({3, 0})), ShapeError);
}

TEST(MarginLosses, RanksMustAgree) {
  const Tensor a = ones({2, 3}), row = ones({3}), y = ones({2});
  EXPECT_THROW(cosine_embedding_loss(a, a, ones({})), ShapeError);
  EXPECT_THROW(cosine_embedding_loss(a, row, y), ShapeError);
  EXPECT_THROW(margin_ranking_loss(a, a, row), ShapeError);
  EXPECT_THROW(triplet_margin_loss(a, a, row), ShapeError);
  EXPECT_THROW(triplet_margin_loss(a, a, a, {.margin = 0}), ValueError);
  EXPECT_THROW(multilabel_soft_margin_loss(ones({}), ones({})), ShapeError);
}

TEST(SoftMargin, DoesNotOverflow) {
  expect_values(soft_margin_loss(tensor({1000.0, -1000.0}, f64), ones({2}, f64), {none}), {0, 1000});
}

TEST(TripletMargin, TakesADistanceOfYourOwn) {
  const Tensor a = spread({3, 4}, 1), p = spread({3, 4}, 2), n = spread({3, 4}, 3);
  int calls = 0;
  const DistanceFunction manhattan = [&](const Tensor& u, const Tensor& v) {
    ++calls;
    return abs(u - v).sum(1);
  };
  const Tensor near = abs(a - p).sum(1), far = abs(a - n).sum(1), between = abs(p - n).sum(1);
  const Tensor one = triplet_margin_with_distance_loss(a, p, n, manhattan, {.reduction = none, .margin = 3});
  expect_values(one, values(relu(3 + near - far)));
  const Tensor other =
      triplet_margin_with_distance_loss(a, p, n, manhattan, {.reduction = none, .margin = 3, .swap = true});
  expect_values(other, values(relu(3 + near - minimum(far, between))));
  EXPECT_EQ(calls, 5);
  expect_values(triplet_margin_with_distance_loss(a, p, n, nullptr), values(triplet_margin_loss(a, p, n)));
}

// ---- cross entropy --------------------------------------------------------------------------------------------------

TEST(CrossEntropy, AnImpossibleClassDoesNotMakeOthersNan) {
  const Tensor x = tensor({{1.0, -infinity}, {2.0, 3.0}}, f64), t = tensor({0, 1}), w = tensor({1.0, 2.0}, f64);
  const double second = std::log(1 + std::exp(-1.0));
  expect_values(cross_entropy(x, t, {.weight = w, .reduction = none}), {0, 2 * second});
}

TEST(CrossEntropy, HalfPrecisionCountsBeyondItsIntegers) {
  const Tensor x = zeros({70000, 2}, f16), t = zeros({70000}, i64);
  EXPECT_NEAR(cross_entropy(x, t).item<double>(), std::log(2.0), 1e-3);
  EXPECT_NEAR(nll_loss(x - 1, t).item<double>(), 1, 1e-3);
  EXPECT_NEAR(nll_loss(x - 1, t, {.weight = ones({2})}).item<double>(), 1, 1e-3);
  EXPECT_NEAR(cross_entropy(x, x + 0.5).item<double>(), std::log(2.0), 1e-3);
}

TEST(CrossEntropy, DistributionsKnowNoIgnoredIndex) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(cross_entropy(x, x, {.ignore_index = 1}), ValueError);
}

// ---- distances ------------------------------------------------------------------------------------------------------

TEST(Cdist, TheProductIsAsExactAsTheDifferenceForCloseRows) {
  Tensor a = SampleMaker(f32, {}, 1).tensor({40, 64}, 99, 101), b = SampleMaker(f32, {}, 2).tensor({30, 64}, 99, 101);
  b.select(0, 3).copy_(a.select(0, 5) + 1e-4);
  b.select(0, 4).copy_(a.select(0, 6));
  const auto relative_error = [&](DistanceMode mode) {
    const Tensor exact = cdist(a.to(f64), b.to(f64), 2, DistanceMode::difference);
    const Tensor error = abs(cdist(a, b, 2, mode).to(f64) - exact) / clip(exact, 1e-9, std::nullopt);
    return error.max().item<double>();
  };
  EXPECT_LT(relative_error(DistanceMode::product), 1e-5);
  EXPECT_LT(relative_error(DistanceMode::automatic), 1e-5);
  EXPECT_EQ(cdist(a, b).select(0, 6).select(0, 4).item<float>(), 0);
}

TEST(Cdist, GradientsOfTheProductAreThoseOfTheDifference) {
  const Tensor a = spread({2, 30, 8}, 1), b = spread({2, 28, 8}, 2);
  b.select(1, 3).copy_(a.select(1, 5) + 1e-3);
  b.select(1, 4).copy_(a.select(1, 6));
  const auto gradients_of = [&](DistanceMode mode) {
    const Tensor x = a.clone().requires_grad_(), y = b.clone().requires_grad_();
    const Tensor d = cdist(x, y, 2, mode);
    (square(d) + d).sum().backward();
    Doubles all = values(x.grad());
    for (const double v : values(y.grad())) all.push_back(v);
    return all;
  };
  const Doubles product = gradients_of(DistanceMode::automatic), difference = gradients_of(DistanceMode::difference);
  for (size_t i = 0; i < product.size(); ++i) EXPECT_NEAR(product[i], difference[i], 1e-9);
}

TEST(Cdist, LargeInputsAreComputedInBlocks) {
  const Tensor a = SampleMaker(f64, {}, 1).tensor({300, 40}), b = SampleMaker(f64, {}, 2).tensor({500, 40});
  const Tensor x = a.clone().requires_grad_(), y = b.clone().requires_grad_();
  const Tensor d = cdist(x, y, 1);
  EXPECT_NEAR((d[{299, 499}]).item<double>(), abs(a.select(0, 299) - b.select(0, 499)).sum().item<double>(), 1e-12);
  d.sum().backward();
  expect_values(x.grad().select(0, 7), values(sign(a.select(0, 7) - b).sum(0)));
  expect_values(y.grad().select(0, 9), values(sign(b.select(0, 9) - a).sum(0)));
}

TEST(Cdist, KeepsInfinitiesAndNans) {
  Tensor a = spread({30, 4}, 1), b = spread({30, 4}, 2);
  a.select(0, 0).fill_(infinity);
  b.select(0, 1).fill_(nan);
  const Tensor d = cdist(a, b), expected = cdist(a, b, 2, DistanceMode::difference);
  EXPECT_TRUE(allclose(d, expected, 1e-10, 1e-10, true));
}

TEST(Distances, RejectInvalidArguments) {
  const Tensor a = ones({2, 3});
  EXPECT_THROW(cdist(a, ones({3})), ShapeError);
  EXPECT_THROW(cdist(a, ones({2, 4})), ShapeError);
  EXPECT_THROW(cdist(ones({2, 1, 3}), ones({3, 1, 3})), ShapeError);
  EXPECT_THROW(cdist(a, a.to(f64)), DTypeError);
  EXPECT_THROW(cdist(a.to(i64), a.to(i64)), DTypeError);
  EXPECT_THROW(cdist(a, a, -1), ValueError);
  EXPECT_THROW(cdist(a, a, nan), ValueError);
  EXPECT_THROW(pdist(ones({3})), ShapeError);
  EXPECT_THROW(normalize(ones({3})), IndexError);
  EXPECT_THROW(normalize(a.to(i64)), DTypeError);
  EXPECT_THROW(cosine_similarity(a, a, 2), IndexError);
  EXPECT_THROW(cosine_similarity(a, ones({2, 2})), ShapeError);
  EXPECT_THROW(cosine_similarity(a.to(i64), a.to(i64)), DTypeError);
  EXPECT_EQ(pdist(ones({0, 2})).shape(), Dims(0));
}

// ---- ctc ------------------------------------------------------------------------------------------------------------

// The probability of all paths of length T that collapse to `wanted`, by trying every path.
double probability_of(const Doubles& p, int times, int classes, const std::vector<int64_t>& wanted, int64_t blank) {
  double total = 0;
  const int paths = static_cast<int>(std::lround(std::pow(classes, times)));
  for (int path = 0; path < paths; ++path) {
    std::vector<int64_t> seen;
    int64_t last = -1;
    double chance = 1;
    for (int t = 0, rest = path; t < times; ++t, rest /= classes) {
      const int64_t c = rest % classes;
      chance *= p[static_cast<size_t>(t * classes + c)];
      if (c != last && c != blank) seen.push_back(c);
      last = c;
    }
    if (seen == wanted) total += chance;
  }
  return total;
}

TEST(CtcLoss, SumsOverAllAlignments) {
  for (const int64_t blank : {0, 2}) {
    const std::vector<int64_t> labels = blank == 0 ? std::vector<int64_t>{1, 1, 2} : std::vector<int64_t>{0, 1, 1};
    const Tensor lp = log_softmax(spread({5, 3}, 1), 1);
    const Tensor loss = ctc_loss(lp, tensor(labels), tensor(5), tensor(3), {.blank = blank, .reduction = sum});
    EXPECT_NEAR(loss.item<double>(), -std::log(probability_of(values(exp(lp)), 5, 3, labels, blank)), 1e-12);
  }
}

TEST(CtcLoss, TheGradientIsMinusTheProbabilityOfEachClass) {
  expect_gradients(
      [](Inputs in) {
        return ctc_loss(in[0], tensor({{1, 2}, {2, 0}}), tensor({4, 3}), tensor({2, 1}), {.reduction = none});
      },
      {leaf({4, 2, 3}, 1, -3, -0.1)});
  const Tensor lp = spread({4, 2, 3}, 1, -3, -0.1).requires_grad_();
  ctc_loss(lp, tensor({1, 2, 1}), tensor({4, 4}), tensor({2, 1}), {.reduction = sum}).backward();
  for (const double v : values(lp.grad().sum(2))) EXPECT_NEAR(v, -1, 1e-12);
}

TEST(CtcLoss, WithoutAnAlignmentItIsInfiniteOrZero) {
  const Tensor lp = log_softmax(spread({2, 1, 3}, 1), 2).requires_grad_();
  const Tensor labels = tensor({{1, 1}}), in = tensor({2}), out = tensor({2});
  EXPECT_EQ(ctc_loss(lp, labels, in, out, {.reduction = sum}).item<double>(), infinity);
  const Tensor loss = ctc_loss(lp, labels, in, out, {.reduction = sum, .zero_infinity = true});
  EXPECT_EQ(loss.item<double>(), 0);
  loss.backward();
  for (const double v : values(lp.grad())) EXPECT_EQ(v, 0);
}

TEST(CtcLoss, ImpossibleClassesAreNoNan) {
  const Tensor lp = tensor({{0.0, -infinity}, {-infinity, 0.0}, {0.0, -infinity}}, f64).requires_grad_();
  const Tensor loss = ctc_loss(lp, tensor({1}), tensor(3), tensor(1));
  EXPECT_EQ(loss.item<double>(), 0);
  loss.backward();
  EXPECT_FALSE(isnan(lp.grad()).any().item<bool>());
}

TEST(CtcLoss, RejectsInvalidArguments) {
  const Tensor lp = log_softmax(spread({4, 2, 3}, 1), 2), t = tensor({{1, 2}, {1, 1}}), in = tensor({4, 4});
  const Tensor out = tensor({2, 2});
  EXPECT_THROW(ctc_loss(lp, t, tensor({5, 4}), out), ValueError);
  EXPECT_THROW(ctc_loss(lp, t, tensor({-1, 4}), out), ValueError);
  EXPECT_THROW(ctc_loss(lp, t, in, tensor({3, 1})), ValueError);
  EXPECT_THROW(ctc_loss(lp, t, in, tensor({2})), ShapeError);
  EXPECT_THROW(ctc_loss(lp, t, in.to(f32), out), DTypeError);
  EXPECT_THROW(ctc_loss(lp, t.to(f32), in, out), DTypeError);
  EXPECT_THROW(ctc_loss(lp, t + 2, in, out), IndexError);
  EXPECT_THROW(ctc_loss(lp, t - 2, in, out), IndexError);
  EXPECT_THROW(ctc_loss(lp, tensor({1, 2, 1}), in, out), ShapeError);
  EXPECT_THROW(ctc_loss(lp, t, in, out, {.blank = 3}), ValueError);
  EXPECT_THROW(ctc_loss(lp.select(0, 0).select(0, 0), t, in, out), ShapeError);
  EXPECT_EQ(ctc_loss(lp, t, in, out, {.reduction = none}).shape(), Dims(2));
  EXPECT_TRUE(
      std::isnan(ctc_loss(ones({4, 0, 3}), zeros({0, 2}, i64), zeros({0}, i64), zeros({0}, i64)).item<float>()));
}

// ---- sequences ------------------------------------------------------------------------------------------------------

TEST(Sequences, EndsAreExact) {
  expect_values(geomspace(1, 1000, 4, {.dtype = f64}), {1, 10, 100, 1000});
  expect_values(geomspace(-2, -32, 5, {.dtype = f64}), {-2, -4, -8, -16, -32});
  EXPECT_EQ(geomspace(1e-300, 1e300, 3, {.dtype = f64}).select(0, 2).item<double>(), 1e300);
  EXPECT_NEAR(geomspace(1e-300, 1e300, 3, {.dtype = f64}).select(0, 1).item<double>(), 1, 1e-12);
  expect_values(logspace(0, 3, 4, 10, {.dtype = i64}), {1, 10, 100, 1000});
  EXPECT_THROW(geomspace(0, 1, 3), ValueError);
  EXPECT_THROW(geomspace(-1, 1, 3), ValueError);
  EXPECT_THROW(geomspace(1, infinity, 3), ValueError);
  EXPECT_THROW(logspace(0, 1, -1), ValueError);
  EXPECT_ANY_THROW(logspace(0, 1, int64_t{1} << 62));
  EXPECT_ANY_THROW(hann_window(std::numeric_limits<int64_t>::max()));
  EXPECT_THROW(hann_window(3, true, {.dtype = i64}), DTypeError);
  EXPECT_THROW(kaiser_window(-1), ValueError);
}

TEST(Sequences, KaiserWindowsOfAnySteepnessAreFinite) {
  for (const double beta : {0.0, 0.5, 14.0, 100.0, 2000.0, 1e7, -14.0}) {
    const Doubles w = values(kaiser_window(9, false, beta, {.dtype = f64}));
    EXPECT_NEAR(w[4], 1, 1e-12);
    EXPECT_EQ(w[0], w[8]);
    for (size_t i = 1; i < 5; ++i) EXPECT_GE(w[i], w[i - 1]);
  }
  // I0(3) and I0(3 sqrt(3)/2)
  EXPECT_NEAR(values(kaiser_window(5, false, 3, {.dtype = f64}))[0], 1 / 4.880792585865024, 1e-14);
}

}  // namespace
}  // namespace weft::testing
