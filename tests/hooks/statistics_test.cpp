#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <weft/hooks/statistics.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/random.hpp>
#include <weft/tensor/threads.hpp>

namespace weft {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// The same in double precision, straight from the definitions.
Statistics plainly(const Tensor& x) {
  Statistics s;
  double sum = 0, squares = 0, deviations = 0;
  const std::vector<double> values = x.to_vector<double>();
  for (double v : values) {
    ++s.count;
    if (!std::isfinite(v)) {
      ++s.non_finite;
      continue;
    }
    if (s.count - s.non_finite == 1) s.low = s.high = v;
    s.low = std::min(s.low, v), s.high = std::max(s.high, v);
    s.zeros += v == 0, sum += v, squares += v * v;
  }
  const double n = static_cast<double>(s.count - s.non_finite);
  s.mean = sum / n, s.norm = std::sqrt(squares);
  for (double v : values) deviations += std::isfinite(v) ? (v - s.mean) * (v - s.mean) : 0;
  s.deviation = std::sqrt(deviations / n);
  return s;
}

void expect_same(const Statistics& a, const Statistics& b, double tolerance) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.zeros, b.zeros);
  EXPECT_EQ(a.non_finite, b.non_finite);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  EXPECT_NEAR(a.mean, b.mean, tolerance * (std::abs(b.mean) + b.deviation));
  EXPECT_NEAR(a.deviation, b.deviation, tolerance * b.deviation);
  EXPECT_NEAR(a.norm, b.norm, tolerance * b.norm);
}

TEST(Statistics, AgreeWithDoublePrecisionAtEverySize) {
  manual_seed(1);
  for (int64_t n : {1, 2, 15, 16, 17, 31, 100, 4095, 4096, 4097, 65537, 300000}) {
    SCOPED_TRACE(n);
    const Tensor x = randn({n});
    if (n > 20) x.slice(0, 3, n, 7).zero_();
    expect_same(statistics(x), plainly(x), 1e-5);
  }
}

TEST(Statistics, AgreeOnEveryDtypeAndLayout) {
  manual_seed(2);
  for (DType t : {f16, bf16, f32, f64, i8, i32, i64, u8}) {
    SCOPED_TRACE(name(t));
    const Tensor x = (randn({50, 30}) * 20).to(t);
    expect_same(statistics(x), plainly(x), 1e-5);
    expect_same(statistics(x.t()), plainly(x.t()), 1e-5);
    expect_same(statistics(x.slice(1, 1, 29, 3)), plainly(x.slice(1, 1, 29, 3)), 1e-5);
  }
}

TEST(Statistics, SkipAndCountNonFiniteElements) {
  const Tensor x = randn({5000});
  x.slice(0, 10, 11).fill_(NAN), x.slice(0, 4500, 4502).fill_(inf), x.slice(0, 0, 1).fill_(-inf);
  expect_same(statistics(x), plainly(x), 1e-5);
  EXPECT_EQ(statistics(x).non_finite, 4);
  const Statistics none = statistics(full({3}, NAN));
  EXPECT_EQ(none.non_finite, 3);
  EXPECT_EQ(none.rms(), 0);
}

TEST(Statistics, SquaresNeitherOverflowNorUnderflow) {
  const Tensor x = randn({1000});
  for (double scale : {1e-30, 1e-20, 1e20, 1e30}) {
    SCOPED_TRACE(scale);
    expect_same(statistics(x * scale), plainly(x * scale), 1e-5);
  }
}

TEST(Statistics, ASmallDeviationBesideALargeMeanIsSeen) {
  const Tensor x = randn({100000}) * 1e-4 + 1.0;
  expect_same(statistics(x), plainly(x), 1e-4);
}

TEST(Statistics, DoNotDependOnTheThreads) {
  const Tensor x = randn({1000000});
  const int before = num_threads();
  set_num_threads(1);
  const Statistics one = statistics(x);
  set_num_threads(4);
  const Statistics four = statistics(x);
  set_num_threads(before);
  EXPECT_EQ(one.mean, four.mean);
  EXPECT_EQ(one.norm, four.norm);
  EXPECT_EQ(one.deviation, four.deviation);
}

TEST(Statistics, AddUpAsIfMeasuredTogether) {
  const Tensor x = randn({1000}) + 3.0;
  Statistics parts = statistics(x.slice(0, 0, 300));
  parts += statistics(x.slice(0, 300, 300));
  parts += statistics(x.slice(0, 300));
  expect_same(parts, plainly(x), 1e-5);
}

TEST(Statistics, OfNothingAreZero) {
  const Statistics s = statistics(zeros({0}));
  EXPECT_EQ(s.count, 0);
  EXPECT_EQ(s.rms(), 0);
  EXPECT_EQ(s.zero_share(), 0);
  EXPECT_THROW(statistics(Tensor()), ValueError);
}

TEST(Histogram, PutsElementsIntoTheBinOfTheirExponent) {
  const Histogram h = magnitude_histogram(tensor({1.0, 1.5, 2.0, -0.25, 0.0, double(NAN), inf, 1e30, -1e-30}));
  const auto bin = [](int exponent) { return static_cast<size_t>(exponent - Histogram::lowest); };
  EXPECT_EQ(h.positive[bin(0)], 2);
  EXPECT_EQ(h.positive[bin(1)], 1);
  EXPECT_EQ(h.negative[bin(-2)], 1);
  EXPECT_EQ(h.positive.back(), 1);
  EXPECT_EQ(h.negative.front(), 1);
  EXPECT_EQ(h.zeros, 1);
  EXPECT_EQ(h.non_finite, 2);
  EXPECT_EQ(h.count(), 9);
}

TEST(Histogram, OfALargeTensorIsASample) {
  EXPECT_EQ(magnitude_histogram(ones({10000}), 100).count(), 100);
  EXPECT_EQ(magnitude_histogram(ones({99}), 100).count(), 99);
}

}  // namespace
}  // namespace weft
