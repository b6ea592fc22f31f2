// Order: sorted lines, the k-th elements, medians, quantiles.
#include <weft/ops/sort.hpp>

#include <weft/autograd/engine.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/search.hpp>
#include <weft/tensor/allocator.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

constexpr int64_t huge = int64_t{1} << 62;

TEST(Sort, PutsNaNLastAndFirstWhenDescending) {
  const Tensor x = doubles({2, nan, -infinity, 1, nan, infinity});
  const auto [up, places] = sort(x);
  expect_values(up, {-infinity, 1, 2, infinity, nan, nan});
  expect_values(places, {2, 3, 0, 5, 1, 4});
  EXPECT_EQ(places.dtype(), i64);
  expect_values(sort(x, 0, true).values, {nan, nan, infinity, 2, 1, -infinity});
  expect_values(argsort(x, -1, true), {1, 4, 5, 0, 3, 2});
}

TEST(Sort, KeepsTheOrderOfEqualElements) {
  const Tensor x = doubles({1, 0, 1, 0, 1, 0}, {2, 3});
  expect_values(argsort(x), {1, 0, 2, 0, 2, 1});
  expect_values(argsort(x, 1, true), {0, 2, 1, 1, 0, 2});
  expect_values(argsort(x.t(), -2), {1, 0, 0, 2, 2, 1});
  expect_values(msort(x), {0, 0, 0, 1, 1, 1});
}

TEST(Sort, HandlesTensorsOfNoDimensionAndOfNoElements) {
  EXPECT_EQ(sort(tensor(3.)).indices.shape(), Dims());
  EXPECT_EQ(sort(zeros({0, 2})).values.shape(), Dims({0, 2}));
  EXPECT_EQ(topk(zeros({0}), 0).values.shape(), Dims(0));
  EXPECT_EQ(kthvalue(zeros({0, 2}), 1, 1).values.shape(), Dims(0));
  EXPECT_THROW(sort(tensor(3.), 1), IndexError);
  EXPECT_THROW(sort(zeros({2}), -2), IndexError);
}

// Memory suffices for the results, but not for the kernel's scratch buffer.
TEST(Sort, RaisesOutOfMemoryErrorWithTheOpsName) {
  const Tensor x = zeros({1 << 20}, {DType::f32});
  set_memory_limit({}, memory_stats().allocated + (14u << 20));
  std::string words;
  try {
    sort(x);
  } catch (const OutOfMemoryError& e) {
    words = e.what();
  }
  set_memory_limit({}, 0);
  EXPECT_EQ(words.rfind("[sort] ", 0), 0u) << words;
  EXPECT_EQ(sort(x).indices.numel(), 1 << 20);
}

TEST(Topk, RefusesARankBeyondTheLine) {
  for (const int64_t k : {int64_t{-1}, int64_t{4}, huge, -huge}) {
    EXPECT_THROW(topk(zeros({2, 3}), k), ValueError) << k;
    EXPECT_THROW(kthvalue(zeros({2, 3}), k), ValueError) << k;
  }
  EXPECT_THROW(kthvalue(zeros({3}), 0), ValueError);
}

TEST(Topk, TakesTheFirstOfEqualElements) {
  expect_values(topk(doubles({1, 3, 3, 3}), 2).indices, {1, 2});
  expect_values(topk(doubles({3, 1, 1, 1}), 2, -1, false).indices, {1, 2});
  expect_values(topk(doubles({1, nan, 3}), 2).values, {nan, 3});
}

TEST(Topk, AgreesWithASortOfTheWholeLine) {
  for (const int64_t n : {40, 700}) {
    const Tensor x = spread({3, n, 2}, 4);
    for (const bool largest : {false, true}) {
      const auto [values_, places] = sort(x, 1, largest);
      for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{20}, n}) {
        const auto [some, at] = topk(x, k, 1, largest);
        expect_values(some, values(values_.narrow(1, 0, k)));
        expect_values(at, values(places.narrow(1, 0, k)));
      }
    }
    expect_values(kthvalue(x, 9, 1).values, values(sort(x, 1).values.select(1, 8)));
  }
}

TEST(Topk, SendsTheGradientToTheChosenElements) {
  const Tensor x = doubles({1, 4, 2, 3}).requires_grad_();
  (topk(x, 2).values * doubles({10, 20})).sum().backward();
  expect_values(x.grad(), {0, 10, 0, 20});
  expect_gradients([](Inputs in) { return square(topk(in[0], 2, 0, false).values); }, {leaf({5, 2})});
}

// Every rank of short lines and some of long ones, among few different elements and many, NaN and both zeros.
TEST(Kthvalue, EqualsTheSortedElement) {
  manual_seed(4);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::i64, DType::u8}) {
    for (const int64_t n : {1, 2, 23, 24, 25, 300, 5000}) {
      for (const bool few : {false, true}) {
        const int64_t high = dtype == DType::u8 ? 256 : 40000, low = dtype == DType::u8 ? 0 : -high;
        Tensor x = randint(few ? 0 : low, few ? 3 : high, {n, 2}).to(dtype);
        if (is_floating(dtype) && !few) x = where(rand({n, 2}) < 0.1, nan, x / 7.0).to(dtype);
        if (is_floating(dtype) && few) x = where(rand({n, 2}) < 0.5, -x, x);
        const auto [values, order] = sort(x, 0);
        for (int64_t k = 1; k <= n; k += std::max<int64_t>(1, n / 20)) {
          const auto [value, index] = kthvalue(x, k, 0);
          ASSERT_TRUE(equal(index, order[k - 1])) << name(dtype) << " " << n << " rank " << k << " few " << few;
        }
      }
    }
  }
  const Tensor wide = randn({3, 4, 700}).transpose(0, 2);
  EXPECT_TRUE(equal(kthvalue(wide, 350, 0).indices, argsort(wide, 0)[349]));
  EXPECT_TRUE(equal(kthvalue(full({}, 3), 1, 0).values, full({}, 3)));
}

TEST(Quantile, FewLevelsEqualMany) {
  const Tensor x = randn({6, 501}, f64), few = tensor({0.1, 0.5}).to(f64);
  const Tensor many = tensor({0.1, 0.5, 0.2, 0.3, 0.7, 1.0}).to(f64);
  EXPECT_TRUE(equal(quantile(x, few, 1), quantile(x, many, 1).narrow(0, 0, 2)));
}

TEST(Mode, IsTheSmallestOfTheMostFrequentAndItsLastIndex) {
  const auto [values, places] = mode(doubles({2, 1, 3, 1, 2}));
  EXPECT_EQ(values.item<double>(), 1);
  EXPECT_EQ(places.item<int64_t>(), 3);
  EXPECT_THROW(mode(zeros({2, 0})), ValueError);
}

TEST(Median, IsTheLowerOneAndNaNWhereOneIs) {
  expect_values(median(doubles({4, 1, 3, 2})), {2});
  expect_values(median(doubles({4, nan, 3, 2})), {nan});
  expect_values(nanmedian(doubles({4, nan, 3, 2})), {3});
  expect_values(nanmedian(doubles({nan, nan})), {nan});
  const auto [values, places] = median(doubles({4, nan, nan, 1, 2, 3}, {2, 3}), 1);
  expect_values(values, {nan, 2});
  expect_values(places, {1, 1});
  expect_values(median(zeros({0})), {nan});
  EXPECT_THROW(median(zeros({0}, i64)), ValueError);
  EXPECT_THROW(median(zeros({2, 0}), 1), ValueError);
}

TEST(Median, SharesTheGradientAmongEqualElementsWithoutADimension) {
  const Tensor x = doubles({2, 1, 2, 3}).requires_grad_();
  median(x).backward();
  expect_values(x.grad(), {0.5, 0, 0.5, 0});
}

TEST(Quantile, IsBetweenTwoElements) {
  const Tensor x = doubles({4, 1, 3, 2});
  expect_values(quantile(x, 0.5), {2.5});
  expect_values(quantile(x, 0.4, {}, false, QuantileInterpolation::lower), {2});
  expect_values(quantile(x, 0.4, {}, false, QuantileInterpolation::higher), {3});
  expect_values(quantile(x, 0.5, {}, false, QuantileInterpolation::nearest), {3});
  expect_values(quantile(x, 0.4, {}, false, QuantileInterpolation::midpoint), {2.5});
  expect_values(nanquantile(doubles({1, nan, 2}), 0.5), {1.5});
}

TEST(Quantile, PutsItsLevelsFirst) {
  const Tensor x = zeros({2, 3, 4}), q = tensor({0.1, 0.9}, f32);
  EXPECT_EQ(quantile(x, q, 1).shape(), Dims({2, 2, 4}));
  EXPECT_EQ(quantile(x, q, 1, true).shape(), Dims({2, 2, 1, 4}));
  EXPECT_EQ(quantile(x, q, {}, true).shape(), Dims({2, 1, 1, 1}));
}

TEST(Quantile, RejectsInvalidLevels) {
  const Tensor x = zeros({3}), wrong = tensor({0.5}, f64), square = zeros({1, 1});
  EXPECT_THROW(quantile(x, 1.5), ValueError);
  EXPECT_THROW(quantile(x, nan), ValueError);
  EXPECT_THROW(quantile(x, wrong), DTypeError);
  EXPECT_THROW(quantile(x, square), ShapeError);
  EXPECT_THROW(quantile(zeros({3}, i64), 0.5), DTypeError);
  EXPECT_THROW(quantile(zeros({0}), 0.5), ValueError);
}

TEST(Isin, ComparesInTheCommonDtype) {
  const Tensor x = tensor({1, 2, 3}), some = doubles({2, 2.5, nan}), none = zeros({0});
  expect_values(isin(x, some), {0, 1, 0});
  expect_values(isin(x, 3), {0, 0, 1});
  expect_values(isin(x, 2.5), {0, 0, 0});
  expect_values(isin(x, some, true), {1, 0, 1});
  expect_values(isin(some, some), {1, 1, 0});
  expect_values(isin(x, none), {0, 0, 0});
  EXPECT_EQ(isin(2, x).shape(), Dims());
}

}  // namespace
}  // namespace weft::testing
