#include <algorithm>
#include <cmath>
#include <numeric>

#include <weft/backends/backend.hpp>
#include <weft/ops/complex.hpp>
#include <weft/ops/distance.hpp>
#include <weft/ops/foreach.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/linalg.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/statistics.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

double total(const Doubles& x) { return std::accumulate(x.begin(), x.end(), 0.0); }
double average(const Doubles& x) { return total(x) / static_cast<double>(x.size()); }
double product(const Doubles& x) { return std::accumulate(x.begin(), x.end(), 1.0, std::multiplies<>()); }
double largest(const Doubles& x) { return *std::max_element(x.begin(), x.end()); }
double smallest(const Doubles& x) { return *std::min_element(x.begin(), x.end()); }
double deviations(const Doubles& x) {
  double sum = 0;
  for (const double v : x) sum += (v - average(x)) * (v - average(x));
  return sum;
}

struct Case {
  Dims shape;
  std::vector<int> dims;
};
const std::vector<Case> cases = {{{}, {}},       {{5}, {0}},          {{2, 3}, {}},     {{2, 3}, {1}},
                                 {{2, 3}, {0}},  {{2, 3, 4}, {0, 2}}, {{2, 3, 4}, {1}}, {{3, 1, 2, 2}, {1, 3}},
                                 {{37, 5}, {0}}, {{4, 130}, {1}}};

void expect_reduction(Tensor (*op)(const Tensor&, const Dims&, bool), double (*reference)(const Doubles&)) {
  for (const Case& c : cases) {
    const Tensor x = spread(c.shape, 3);
    const Dims dims(std::vector<int64_t>(c.dims.begin(), c.dims.end()));
    const Tensor kept = op(x, dims, true), gone = op(x, dims, false);
    const Doubles expected = each(groups(x, c.dims), reference);
    expect_values(kept, expected);
    expect_values(gone, expected);
    EXPECT_EQ(kept.dim(), x.dim());
    EXPECT_EQ(gone.dim(), c.dims.empty() ? 0 : x.dim() - static_cast<int>(c.dims.size()));
  }
}

TEST(Reduce, ValuesAreThoseOfALoop) {
  expect_reduction([](const Tensor& x, const Dims& d, bool k) { return sum(x, d, k); }, total);
  expect_reduction([](const Tensor& x, const Dims& d, bool k) { return mean(x, d, k); }, average);
  expect_reduction([](const Tensor& x, const Dims& d, bool k) { return prod(x, d, k); }, product);
  expect_reduction([](const Tensor& x, const Dims& d, bool k) { return amax(x, d, k); }, largest);
  expect_reduction([](const Tensor& x, const Dims& d, bool k) { return amin(x, d, k); }, smallest);
  expect_reduction([](const Tensor& x, const Dims& d, bool k) { return norm(x, d, k); },
                   [](const Doubles& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); });
  expect_reduction([](const Tensor& x, const Dims& d, bool k) { return logsumexp(x, d, k); },
                   [](const Doubles& x) {
                     double sum = 0;
                     for (const double v : x) sum += std::exp(v);
                     return std::log(sum);
                   });
  expect_reduction([](const Tensor& x, const Dims& d, bool k) { return var(x, d, 0, k); },
                   [](const Doubles& x) { return deviations(x) / static_cast<double>(x.size()); });
  expect_reduction([](const Tensor& x, const Dims& d, bool k) { return weft::std(x, d, 0.5, k); },
                   [](const Doubles& x) { return std::sqrt(deviations(x) / (static_cast<double>(x.size()) - 0.5)); });
}

TEST(Reduce, StridedInputsGiveTheSame) {
  const Tensor x = spread({4, 3, 5}, 1);
  const Tensor t = x.transpose(0, 2);
  expect_values(sum(t, {1}), values(sum(t.clone(), {1})));
  expect_values(var(t, {0, 1}), values(var(t.clone(), {0, 1})));
  expect_values(max(t, 1).values, values(max(t.clone(), 1).values));
  expect_values(argmax(t), values(argmax(t.clone())));
  const Tensor reversed = x.slice(1, {}, {}, -1);
  expect_values(sum(reversed, {0, 2}), values(sum(reversed.clone(), {0, 2})));
}

TEST(Reduce, MethodsAreTheFunctions) {
  const Tensor x = spread({2, 3});
  expect_values(x.sum(), values(sum(x)));
  expect_values(x.sum(0, true), values(sum(x, 0)));
  expect_values(x.mean(), values(mean(x)));
  expect_values(x.mean(-1), values(mean(x, 1)));
}

TEST(Reduce, IntegersSumInInt64AndHaveNoMean) {
  const Tensor x = tensor({100, 100, 100}).to(i8);
  EXPECT_EQ(sum(x).dtype(), i64);
  EXPECT_EQ(sum(x).item<int64_t>(), 300);
  EXPECT_EQ(prod(x).item<int64_t>(), 1000000);
  EXPECT_EQ(sum(tensor({true, false, true})).item<int64_t>(), 2);
  EXPECT_EQ(sum(x, {}, false, f32).dtype(), f32);
  EXPECT_EQ(sum(tensor({1.7, 2.7}), {}, false, i64).item<int64_t>(), 3);
  EXPECT_EQ(max(x).dtype(), i8);
  EXPECT_EQ(mean(x, {}, false, f64).item<double>(), 100);
  EXPECT_THROW(mean(x), DTypeError);
  EXPECT_THROW(mean(tensor({1.0}), {}, false, i64), DTypeError);
  EXPECT_THROW(var(x), DTypeError);
  EXPECT_THROW(weft::std(x), DTypeError);
  EXPECT_THROW(norm(x), DTypeError);
  EXPECT_EQ(logsumexp(tensor({0, 0}), 0).dtype(), f32);
}

TEST(Reduce, SixteenBitFloatsAccumulateInFloat32) {
  const Tensor x = ones({4096}, bf16);
  EXPECT_EQ(sum(x).item<float>(), 4096);
  EXPECT_EQ(sum(x).dtype(), bf16);
  EXPECT_EQ(sum(x, {}, false, f32).dtype(), f32);
  EXPECT_EQ(mean(x).item<float>(), 1);
  EXPECT_EQ(norm(full({4}, 300.0, f16)).item<float>(), 600);
  const Tensor leaf = ones({3}, f16).requires_grad_();
  sum(leaf, {}, false, f64).backward();
  EXPECT_EQ(leaf.grad().dtype(), f16);
  expect_values(leaf.grad(), {1, 1, 1});
}

TEST(Reduce, OverNothingGivesTheIdentity) {
  const Tensor x = zeros({0, 2}, f64);
  expect_values(sum(x, 0), {0, 0});
  expect_values(prod(x, 0), {1, 1});
  expect_values(mean(x, 0), {nan, nan});
  expect_values(var(x, 0), {nan, nan});
  expect_values(norm(x, Dims(0)), {0, 0});
  expect_values(logsumexp(x, 0), {-infinity, -infinity});
  expect_values(any(x, 0), {0, 0});
  expect_values(all(x, 0), {1, 1});
  EXPECT_EQ(sum(x, 1).numel(), 0);
  EXPECT_EQ(amax(x, 1).shape(), Dims(0));
  EXPECT_EQ(max(x, 1).indices.shape(), Dims(0));
  EXPECT_THROW(amax(x, 0), ValueError);
  EXPECT_THROW(max(x), ValueError);
  EXPECT_THROW(max(x, 0), ValueError);
  EXPECT_THROW(argmin(x), ValueError);
  EXPECT_THROW(argmin(x, 0), ValueError);
}

TEST(Reduce, WrongDimensionsAreErrors) {
  const Tensor x = spread({2, 3});
  EXPECT_THROW(sum(x, 2), IndexError);
  EXPECT_THROW(sum(x, -3), IndexError);
  EXPECT_THROW(sum(x, {0, -2}), ValueError);
  EXPECT_THROW(max(x, 2), IndexError);
  EXPECT_THROW(argmax(x, 5), IndexError);
  EXPECT_THROW(sum(Tensor()), ValueError);
  EXPECT_EQ(sum(spread({}), 0).dim(), 0);
  EXPECT_EQ(max(spread({}), -1).indices.item<int64_t>(), 0);
  EXPECT_THROW(sum(spread({}), 1), IndexError);
}

TEST(Reduce, NaNWinsInExtremes) {
  const Tensor x = doubles({1, nan, 3, 2}, {2, 2});
  expect_values(max(x), {nan});
  expect_values(amin(x, 1), {nan, 2});
  expect_values(argmax(x, 1), {1, 0});
  expect_values(argmin(x), {1});
}

TEST(Reduce, FirstOfEqualElementsHasTheIndex) {
  const Tensor x = doubles({1, 3, 3, 0, 0, 5}, {2, 3});
  expect_values(argmax(x, 1), {1, 2});
  expect_values(argmin(x, 1), {0, 0});
  expect_values(argmax(x, 0), {0, 0, 1});
  EXPECT_EQ(argmax(x).item<int64_t>(), 5);
  EXPECT_EQ(argmax(x, {}, true).shape(), Dims({1, 1}));
  EXPECT_EQ(argmax(x, 1, true).shape(), Dims({2, 1}));
  const auto [values_, index] = max(x, -1);
  expect_values(values_, {3, 5});
  expect_values(index, {1, 2});
  EXPECT_EQ(index.dtype(), i64);
  EXPECT_FALSE(index.requires_grad());
}

TEST(Reduce, AnyAndAllSeeNaNAsTrue) {
  const Tensor x = doubles({0, nan, 0, 0}, {2, 2});
  expect_values(any(x, 1), {1, 0});
  expect_values(all(x, 1), {0, 0});
  EXPECT_EQ(any(x).dtype(), boolean);
  EXPECT_TRUE(any(x).item<bool>());
  EXPECT_FALSE(all(x).item<bool>());
  EXPECT_TRUE(all(tensor({1, 2})).item<bool>());
}

TEST(Reduce, LogSumExpNeitherOverflowsNorCancels) {
  expect_values(logsumexp(doubles({1000, 1000}), 0), {1000 + std::log(2)});
  expect_values(logsumexp(doubles({-infinity, 0}), 0), {0});
  expect_values(logsumexp(doubles({-infinity, -infinity}), 0), {-infinity});
  expect_values(logsumexp(doubles({infinity, 0}), 0), {infinity});
  const Tensor x = doubles({-infinity, -infinity}).requires_grad_();
  logsumexp(x, 0).backward();
  expect_values(x.grad(), {0, 0});
}

TEST(Reduce, VarianceFollowsTheCorrection) {
  const Tensor x = doubles({1, 2, 3, 4});
  expect_values(var(x), {5.0 / 3});
  expect_values(var(x, {}, 0), {1.25});
  expect_values(var(x, {}, 2), {2.5});
  expect_values(var(doubles({3})), {nan});
  expect_values(var(x, {}, 5), {infinity});
}

// ---- gradients ----

TEST(ReduceGradient, OfSums) {
  for (const auto& [shape, dims] : cases) {
    if (shape.product() > 40) continue;
    const Dims d(std::vector<int64_t>(dims.begin(), dims.end()));
    const Tensor x = leaf(shape, 4);
    expect_gradients([&](Inputs in) { return sum(in[0], d); }, {x});
    expect_gradients([&](Inputs in) { return mean(in[0], d, true); }, {x});
    expect_gradients([&](Inputs in) { return prod(in[0], d); }, {x});
    expect_gradients([&](Inputs in) { return logsumexp(in[0], d); }, {x});
    expect_gradients([&](Inputs in) { return norm(in[0], d, true); }, {x});
    expect_gradients([&](Inputs in) { return amax(in[0], d); }, {x});
    expect_gradients([&](Inputs in) { return amin(in[0], d, true); }, {x});
    expect_gradients([&](Inputs in) { return square(var(in[0], d, 0)); }, {x});
    if (x.numel() < 2) continue;
    expect_gradients([&](Inputs in) { return weft::std(in[0], d, 0.5); }, {x});
  }
}

TEST(Std, IsThereWhereTheVarianceIsBeyondTheDtype) {
  for (const auto& [dtype, size] :
       {std::pair{f16, 300.0}, {f16, 1e-4}, {f32, 3e19}, {f32, 1e-30}, {f64, 1e200}, {f64, 1e-200}, {bf16, 3e19}}) {
    const Tensor x = tensor({1.0, -1.0, 1.0, 1.0}, f64).mul(size).to(dtype).reshape({2, 2});
    EXPECT_NEAR(weft::std(x, {1}).to_vector<double>()[0] / size, std::sqrt(2), 0.02) << name(dtype) << size;
    EXPECT_EQ(weft::std(x, {1}).to_vector<double>()[1], 0) << name(dtype) << size;
    EXPECT_NEAR(weft::std(x, {}, 0).item<double>() / size, std::sqrt(0.75), 0.02) << name(dtype) << size;
    EXPECT_EQ(weft::std(x, {0}, 1, true).shape(), (Dims{1, 2}));
  }
  const Tensor x = tensor({300.0, -300.0}, f16).requires_grad_();
  weft::std(x).backward();
  expect_values(x.grad().to(f64), {std::sqrt(0.5), -std::sqrt(0.5)}, 1e-3);
}

TEST(Std, AndVarianceAreThereWhereSumsAreBeyondTheDtype) {
  const Tensor numbers = spread({1000, 4});
  const double wanted = var(numbers).item<double>();
  for (const DType t : {f32, bf16}) {
    EXPECT_NEAR(weft::std((numbers * 1e38).to(t)).item<double>() / 1e38, std::sqrt(wanted), 0.02) << name(t);
    EXPECT_NEAR(var((numbers * 7e18).to(t)).item<double>() / 4.9e37, wanted, 0.02) << name(t);
    EXPECT_NEAR(var((numbers * 7e18).to(t), {0}).to(f64).to_vector<double>()[1] / 4.9e37,
                var(numbers, {0}).to_vector<double>()[1], 0.02)
        << name(t);
    EXPECT_EQ(var((numbers * 1e20).to(t)).item<double>(), infinity);
    EXPECT_TRUE(std::isnan(var(tensor({1.0, infinity, 2.0}, f64).to(t)).item<double>()));
  }
  const Tensor z = weft::complex(numbers, -numbers) * 1e20;
  EXPECT_NEAR(weft::std(z.to(c64)).item<double>() / 1e20, std::sqrt(2 * wanted), 1e-5);
}

TEST(Std, IsTheCpusOnDevices) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "no HPU";
  const Tensor numbers = spread({1000, 4});
  for (const DType t : {f32, bf16, f16, f64}) {
    for (const double size : {1.0, 1e-3, 1e-25, 1e20, 1e38}) {
      if (t == f16 && size != 1 && size != 1e-3) continue;
      for (const Dims& dims : {Dims(), Dims(0), Dims(1)}) {
        const Tensor x = (numbers * size).to(t), there = x.to("hpu");
        const auto relative = [](const Tensor& found, const Tensor& wanted) {
          return max(abs(found.to("cpu").to(f64) / wanted.to(f64) - 1)).item<double>();
        };
        const double tolerance = t == f32 ? 1e-6 : t == f64 ? 1e-12 : 0.01;
        EXPECT_LE(relative(weft::std(there, dims), weft::std(x, dims)), tolerance) << name(t) << size << dims.text();
      }
    }
    // Squares or sums that overflow where the variance does not.
    for (const double size : {7e18, 1e-19}) {
      if (t == f16) continue;
      const Tensor x = (numbers * size).to(t);
      EXPECT_NEAR(var(x.to("hpu")).to("cpu").to(f64).item<double>() / var(x).to(f64).item<double>(), 1, 0.01)
          << name(t) << size;
    }
  }
  EXPECT_EQ(weft::std(zeros({5}, {f32, Device("hpu")})).to("cpu").item<float>(), 0);
  EXPECT_EQ(var(full({7}, 0.1, {f32, Device("hpu")})).to("cpu").item<float>(), 0);
}

TEST(Norm, ANumberIsTheOrderAndAListTheDimensions) {
  const Tensor x = doubles({3, -4, 0, 1, 2, -2}, {2, 3});
  expect_values(norm(x, 1), {12});
  expect_values(norm(x, 1, {1}), {7, 5});
  expect_values(norm(x, Dims{1}), {5, 3});
  expect_values(norm(x, 0, {1}), {2, 3});
  expect_values(norm(x, infinity, {0}, true), {3, 4, 2});
  expect_values(norm(x, -infinity, {0}), {1, 2, 0});
  expect_values(vector_norm(x, 3, {1}), {std::cbrt(91), std::cbrt(17)});
  expect_values(vector_norm(doubles({1, 4}), 0.5), {9});
  expect_values(vector_norm(doubles({1, 4}), -1), {0.8});
  EXPECT_EQ(vector_norm(ones({2}, f32), 2, {}, false, f64).dtype(), f64);
  EXPECT_EQ(vector_norm(full({4}, 300.0, f16), 3).item<float>(), 476.25f);
  EXPECT_THROW(vector_norm(x, nan), ValueError);
  EXPECT_THROW(vector_norm(tensor({1, 2}), 1), DTypeError);
}

TEST(Norm, PowersBeyondTheDtypeAreComputedWithScaling) {
  for (const auto& [dtype, size] : {std::pair{f32, 1e19},
                                    {f32, 1e-30},
                                    {f32, 1e37},
                                    {f64, 1e200},
                                    {f64, 1e-200},
                                    {bf16, 1e30},
                                    {bf16, 1e-30},
                                    {c64, 1e19},
                                    {c128, 1e-200}}) {
    const Tensor x = tensor({3.0, -4.0, 0.0, 0.0}).reshape({2, 2}).to(f64).mul(size).to(dtype);
    for (const double order : {2.0, 3.0, 0.5, 1.0, infinity}) {
      const double right = std::isinf(order) ? 4 : std::pow(std::pow(3, order) + std::pow(4, order), 1 / order);
      const Tensor rows = vector_norm(x, order, {1}), all = vector_norm(x, order);
      EXPECT_NEAR(rows.to_vector<double>()[0] / size, right, 0.02 * right)
          << name(dtype) << ' ' << size << ' ' << order;
      EXPECT_EQ(rows.to_vector<double>()[1], 0);
      EXPECT_NEAR(all.item<double>() / size, right, 0.02 * right) << name(dtype) << ' ' << size << ' ' << order;
    }
    const Tensor row = x.narrow(0, 0, 1);
    EXPECT_NEAR(vector_norm(row, -2).item<double>() / size, 2.4, 0.02) << name(dtype) << ' ' << size;
    EXPECT_NEAR(linalg::matrix_norm(row).item<double>() / size, 5, 0.05) << name(dtype) << ' ' << size;
    if (is_complex(dtype)) continue;
    EXPECT_NEAR(normalize(row, {.dims = 1, .eps = 0}).to_vector<double>()[0], 0.6, 0.01) << name(dtype) << ' ' << size;
    if (size > 1) {
      EXPECT_NEAR(renorm(row, 2, 0, size).to_vector<double>()[0] / size, 0.6, 0.01) << size;
    }
    EXPECT_NEAR(cosine_similarity(row, row * 2, 1, 0).item<double>(), 1, 0.01) << name(dtype) << ' ' << size;
    EXPECT_NEAR(pairwise_distance(row, row * 2, 2, 0).item<double>() / size, 5, 0.05) << name(dtype) << ' ' << size;
    EXPECT_NEAR(dist(row, row * 2).item<double>() / size, 5, 0.05) << name(dtype) << ' ' << size;
    EXPECT_NEAR(foreach_norm(std::vector{row})[0].item<double>() / size, 5, 0.05) << name(dtype) << ' ' << size;
  }
  expect_values(vector_norm(tensor({infinity, 1.0}), 2), {infinity});
  EXPECT_TRUE(std::isnan(vector_norm(tensor({nan, 1e30}), 2).item<double>()));
  expect_values(vector_norm(zeros({0}), 2), {0});
  const Tensor large = tensor({3e19, 4e19}).requires_grad_();
  vector_norm(large).backward();
  expect_values(large.grad(), {0.6, 0.8}, 1e-6);
  EXPECT_NEAR(vector_norm(full({4}, 0.9, f64), 1000).item<double>(), 0.9 * std::pow(4, 1e-3), 1e-12);
}

TEST(Norm, GradientsOfEveryOrder) {
  for (const double order : {0.5, 1.0, 1.5, 2.0, 3.0, -1.0, infinity, -infinity}) {
    expect_gradients([&](Inputs in) { return square(vector_norm(in[0], order, {1}, true)); }, {leaf({3, 4}, 2)});
  }
  for (const double order : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0}) {
    const Tensor x = doubles({0, 0, 2, 0}, {2, 2}).requires_grad_();
    const auto first = grad({sum(vector_norm(x, order, {1}))}, {x}, {}, {.create_graph = true});
    const double slope = order == 0 ? 0 : 1;
    expect_values(first[0], {0, 0, slope, 0});
    const auto second = grad({sum(first[0])}, {x}, {}, {.allow_unused = true});
    const double bend = order == 2 ? 0.5 : 0;  // of sqrt(4 + x²) at 0; elsewhere 0, or masked
    if (second[0].defined()) expect_values(second[0], {0, 0, 0, bend});
  }
}

TEST(Reduce, TheLargerOfTwoTensorsIsMaximum) {
  const Tensor a = doubles({1, 5, nan}), b = doubles({2, 3, 1});
  expect_values(max(a, b), {2, 5, nan});
  expect_values(min(a, b), {1, 3, nan});
}

TEST(ReduceGradient, OfPairs) {
  for (const int dim : {0, 1, -1}) {
    expect_gradients([&](Inputs in) { return max(in[0], dim).values * 2.0; }, {leaf({3, 4, 2}, 5)});
    expect_gradients([&](Inputs in) { return min(in[0], dim, true).values; }, {leaf({3, 4, 2}, 6)});
  }
  expect_gradients([&](Inputs in) { return max(in[0], 0).values; }, {leaf({})});
  expect_gradients([&](Inputs in) { return max(in[0]); }, {leaf({2, 3})});
}

TEST(ReduceGradient, TiesShareInFullReductionsAndGoToTheFirstInPairs) {
  const Tensor x = doubles({2, 2, 1}).requires_grad_();
  max(x).backward();
  expect_values(x.grad(), {0.5, 0.5, 0});
  x.set_grad({});
  max(x, 0).values.backward();
  expect_values(x.grad(), {1, 0, 0});
  const Tensor y = doubles({nan, 1, 2}).requires_grad_();
  max(y).backward();
  expect_values(y.grad(), {1, 0, 0});
}

TEST(ReduceGradient, OfAProductIsExactAtZeros) {
  const auto product_of = [](Inputs in) { return prod(in[0], {0, 2}); };
  for (const Doubles& v : {Doubles{2, 3, 0, 5, 1, 4, 7, 2}, {0, 3, 0, 5, 0, 0, 7, 2}, {0, 0, 0, 0, 0, 0, 0, 0}}) {
    expect_gradients(product_of, {doubles(v, {2, 2, 2}).requires_grad_()});
  }
  const Tensor x = doubles({0, 2, 3}).requires_grad_();
  prod(x).backward();
  expect_values(x.grad(), {6, 0, 0});
}

TEST(ReduceGradient, VanishesWhereARootIsZero) {
  const Tensor x = zeros({3}, f64).requires_grad_();
  norm(x).backward();
  expect_values(x.grad(), {0, 0, 0});
  x.set_grad({});
  weft::std(x).backward();
  expect_values(x.grad(), {0, 0, 0});
  const auto g = grad({norm(x)}, {x}, {}, {.create_graph = true});
  const auto again = grad({sum(g[0])}, {x}, {}, {.allow_unused = true});
  if (again[0].defined()) {
    for (const double v : values(again[0])) EXPECT_FALSE(std::isnan(v));
  }
}

TEST(ReduceGradient, ZeroSizedTensorsGetZeroSizedGradients) {
  const Tensor x = zeros({0, 2}, f64).requires_grad_();
  (sum(x) + prod(x) + sum(mean(x, 1)) + sum(var(x, 1)) + sum(max(x, 1).values)).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
}

TEST(ReduceGradient, UnreducedResultsOfConversionsKeepTheirTypes) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  sum(x, {}, false, f64).backward();
  EXPECT_EQ(x.grad().dtype(), f32);
  const Tensor y = ones({3}, bf16).requires_grad_();
  (norm(y) + logsumexp(y, 0) + var(y) + mean(y, {}, false, f32)).backward();
  EXPECT_EQ(y.grad().dtype(), bf16);
}

TEST(ReduceErrors, NameTheOpTheDimensionAndTheCall) {
  const int line = __LINE__ + 2;
  try {
    (void)sum(spread({2, 3}), 7);
    FAIL();
  } catch (const IndexError& e) {
    EXPECT_NE(::std::string(e.what()).find("[sum]"), ::std::string::npos) << e.what();
    EXPECT_NE(::std::string(e.what()).find("reduce_test.cpp:" + ::std::to_string(line)), ::std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace weft::testing
