#include <weft/ops/scan.hpp>

#include <cmath>

#include <weft/ops/scatter.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

// Lines along `dim` of a contiguous tensor summed by a loop.
Doubles reference(const Tensor& x, int dim, bool exclusive, bool reverse) {
  Doubles v = values(x);
  int64_t inner = 1;
  for (int d = dim + 1; d < x.dim(); ++d) inner *= x.size(d);
  const int64_t n = x.dim() == 0 ? 1 : x.size(dim);
  Doubles out(v.size());
  for (int64_t line = 0; line < static_cast<int64_t>(v.size()) / std::max<int64_t>(n, 1); ++line) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t k = reverse ? n - 1 - i : i;
      const auto at = static_cast<size_t>(line / inner * inner * n + k * inner + line % inner);
      if (!exclusive) sum += v[at];
      out[at] = sum;
      if (exclusive) sum += v[at];
    }
  }
  return out;
}

TEST(Cumsum, CasesOfTheSpecification) {
  const Tensor x = doubles({1, 2, 3, 4});
  expect_values(cumsum(x, 0), {1, 3, 6, 10});
  expect_values(cumsum(x, 0, true), {0, 1, 3, 6});
  expect_values(cumsum(x, 0, false, true), {10, 9, 7, 4});
  expect_values(cumsum(x, 0, true, true), {9, 7, 4, 0});
  expect_values(cumsum(doubles({infinity, 1}), 0, true), {0, infinity});
  expect_values(cumsum(doubles({1, nan, 2}), 0), {1, nan, nan});
}

TEST(Cumsum, BFloat16RoundsEachPrefixOnce) {
  const Doubles y = values(cumsum(ones({512}, bf16), 0));
  EXPECT_EQ(y[255], 256);
  EXPECT_EQ(y[256], 256);
  EXPECT_EQ(y[257], 258);
  EXPECT_EQ(y[258], 260);
  EXPECT_EQ(y[511], 512);
}

TEST(Cumsum, ValuesAreThoseOfALoop) {
  for (const Dims& shape : {Dims(), Dims(5), Dims{2, 3}, Dims{3, 2, 4}, Dims{2, 0}, Dims{5, 1000}, Dims{700, 3}}) {
    for (int dim = 0; dim < std::max(1, shape.size()); ++dim) {
      for (const bool exclusive : {false, true}) {
        for (const bool reverse : {false, true}) {
          const Tensor x = spread(shape, 2);
          expect_values(cumsum(x, dim, exclusive, reverse), reference(x, dim, exclusive, reverse), 1e-10);
        }
      }
    }
  }
  const Tensor t = spread({3, 4}).t();
  expect_values(cumsum(t, 1), values(cumsum(t.clone(), 1)));
  expect_values(cumsum(t.slice(0, {}, {}, -1), 0), values(cumsum(t.slice(0, {}, {}, -1).clone(), 0)));
}

TEST(Cumsum, WithoutADimensionFlattens) {
  const Tensor x = doubles({1, 2, 3, 4}, {2, 2});
  expect_values(cumsum(x, {}), {1, 3, 6, 10});
  EXPECT_EQ(cumsum(x, {}).shape(), Dims(4));
  expect_values(cumsum(x.t(), {}), {1, 4, 6, 10});
}

TEST(Cumsum, IntegersGiveInt64UnlessAsked) {
  EXPECT_EQ(cumsum(tensor({1, 2}).to(i8), 0).dtype(), i64);
  expect_values(cumsum(tensor({true, true}), 0), {1, 2});
  EXPECT_EQ(cumsum(tensor({100, 100}).to(i8), 0, false, false, i8).dtype(), i8);
  EXPECT_EQ(cumsum(tensor({1, 2}), 0, false, false, f32).dtype(), f32);
  EXPECT_EQ(cumsum(ones({2}), 0, false, false, f64).dtype(), f64);
}

TEST(Cumsum, InPlace) {
  const Tensor x = doubles({1, 2, 3});
  const uint32_t version = x.version();
  cumsum_(x, 0);
  expect_values(x, {1, 3, 6});
  EXPECT_EQ(x.version(), version + 1);
  EXPECT_THROW(cumsum_(tensor({1, 2}).to(i32), 0), DTypeError);
  EXPECT_THROW(cumsum_(leaf({3}), 0), AutogradError);
  EXPECT_THROW(cumsum_(ones({1}).expand(3), 0), ValueError);
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * in[0];
        cumsum_(y.select(0, 1), 0, true, true);
        return y;
      },
      {leaf({2, 3})});
}

TEST(Cumsum, Errors) {
  EXPECT_THROW(cumsum(spread({2}), 1), IndexError);
  EXPECT_THROW(cumsum(spread({}), 1), IndexError);
  EXPECT_THROW(cumsum(Tensor(), 0), ValueError);
  EXPECT_EQ(cumsum(zeros({0, 3}), 0).shape(), Dims({0, 3}));
}

TEST(Cumsum, Gradient) {
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      expect_gradients([&](Inputs in) { return square(cumsum(in[0], 1, exclusive, reverse)); }, {leaf({2, 3})});
      expect_gradients([&](Inputs in) { return cumsum(in[0], {}, exclusive, reverse); }, {leaf({2, 2})});
    }
  }
  expect_gradients([&](Inputs in) { return cumsum(in[0], 0); }, {leaf({})});
}

// Lines along `dim` of a contiguous tensor, each prefix by `step`.
template <class Step>
Doubles prefixes(const Tensor& x, int dim, double first, Step&& step) {
  Doubles out = values(x);
  int64_t inner = 1;
  for (int d = dim + 1; d < x.dim(); ++d) inner *= x.size(d);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool begins = static_cast<int64_t>(i) / inner % x.size(dim) == 0;
    out[i] = step(begins ? first : out[i - static_cast<size_t>(inner)], out[i]);
  }
  return out;
}

TEST(Running, ValuesAreThoseOfALoop) {
  for (const Dims& shape : {Dims(5), Dims(1003), Dims{2, 3}, Dims{3, 2, 4}, Dims{5, 70}, Dims{70, 3}, Dims{6, 600}}) {
    for (int dim = 0; dim < shape.size(); ++dim) {
      for (const bool recorded : {false, true}) {
        const Tensor x = spread(shape, 2).detach().requires_grad_(recorded);
        const auto times = [](double a, double b) { return a * b; };
        const auto log_sum = [](double a, double b) {
          return std::max(a, b) + std::log1p(std::exp(std::min(a, b) - std::max(a, b)));
        };
        const auto larger = [](double a, double b) { return std::max(a, b); };
        const auto smaller = [](double a, double b) { return std::min(a, b); };
        expect_values(cumprod(x, dim), prefixes(x, dim, 1, times), 1e-12);
        expect_values(logcumsumexp(x, dim), prefixes(x, dim, -infinity, log_sum), 1e-12);
        expect_values(cummax(x, dim).values, prefixes(x, dim, -infinity, larger));
        expect_values(cummin(x, dim).values, prefixes(x, dim, infinity, smaller));
        expect_values(gather(x, dim, cummax(x, dim).indices), prefixes(x, dim, -infinity, larger));
      }
    }
  }
}

TEST(Running, StridedAndNarrowTypes) {
  const Tensor x = spread({4, 6}, 2);
  for (const DType dtype : {i8, u16, i32, u64, f16, bf16, f32}) {
    const Tensor t = x.to(dtype).t(), dense = t.contiguous();
    expect_values(cummax(t, 0).indices, values(cummax(dense, 0).indices));
    expect_values(cummin(t, 1).values, values(cummin(dense, 1).values));
    expect_values(cumprod(t, 1), values(cumprod(dense, 1)));
    EXPECT_EQ(cummax(t, 0).values.dtype(), dtype);
  }
  expect_values(cummax(tensor({false, true, false, true}), 0).indices, {0, 1, 1, 3});
  EXPECT_EQ(cumprod(tensor({100, 100}).to(i8), 0, i8).dtype(), i8);
  expect_values(cumprod(tensor({100, 100}).to(i8), 0, i8), {100, 16});
}

TEST(Running, NaNAndInfinity) {
  expect_values(cummax(doubles({1, nan, 3, nan, 5}), 0).indices, {0, 1, 1, 3, 3});
  expect_values(cummin(doubles({2, 2, nan, -infinity}), 0).values, {2, 2, nan, nan});
  expect_values(logcumsumexp(doubles({-infinity, 0, infinity, 1}), 0), {-infinity, 0, infinity, infinity});
  expect_values(logcumsumexp(doubles({0, nan, infinity}), 0), {0, nan, nan});
  expect_values(cumprod(doubles({2, infinity, 0, 1}), 0), {2, infinity, nan, nan});
}

TEST(Cumprod, SinglePrecisionIsCarriedInDouble) {
  expect_values(cumprod(doubles({1e-30, 1e-30, 1e30}).to(f32), 0).to(f64), {1e-30, 0, 1e-30}, 1e-36);
}

}  // namespace
}  // namespace weft::testing
