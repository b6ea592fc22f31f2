// Complex tensors: values against std::complex, gradients against differences of the components, and ops that raise.
#include <complex>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>

#include <gtest/gtest.h>
#include <weft/ops/record.hpp>
#include <weft/weft.hpp>

#include "ops/samples.hpp"

#include "message_of.hpp"

namespace weft::testing {
namespace {

using Z = std::complex<double>;

Tensor random_complex(const Dims& shape, uint64_t seed, double low = -2, double high = 2) {
  Generator generator(seed);
  const Tensor re = rand(shape, f64, &generator) * (high - low) + low;
  const Tensor im = rand(shape, f64, &generator) * (high - low) + low;
  return weft::complex(re, im);
}

void expect_close(const Tensor& found, const std::vector<Z>& wanted, double tolerance = 1e-13) {
  const auto z = found.to_vector<Z>();
  ASSERT_EQ(z.size(), wanted.size());
  for (size_t i = 0; i < z.size(); ++i) {
    EXPECT_LE(std::abs(z[i] - wanted[i]), tolerance * std::max(1.0, std::abs(wanted[i])))
        << "element " << i << ": " << z[i] << wanted[i];
  }
}

std::vector<double> values_of(const Tensor& x) { return x.to_vector<double>(); }

std::vector<Z> elements_through(const Tensor& x, const std::function<Z(Z)>& f) {
  std::vector<Z> out = x.to_vector<Z>();
  for (Z& z : out) z = f(z);
  return out;
}

struct Function {
  const char* name;
  Tensor (*op)(const Operand&);
  Z (*of)(Z);
};
const Function functions[] = {
    {"neg", weft::neg, [](Z z) { return -z; }},
    {"conj", weft::conj, [](Z z) { return std::conj(z); }},
    {"square", weft::square, [](Z z) { return z * z; }},
    {"reciprocal", weft::reciprocal, [](Z z) { return 1.0 / z; }},
    {"sqrt", weft::sqrt, [](Z z) { return std::sqrt(z); }},
    {"rsqrt", weft::rsqrt, [](Z z) { return 1.0 / std::sqrt(z); }},
    {"exp", weft::exp, [](Z z) { return std::exp(z); }},
    {"exp2", weft::exp2, [](Z z) { return std::pow(Z(2), z); }},
    {"expm1", weft::expm1, [](Z z) { return std::exp(z) - 1.0; }},
    {"log", weft::log, [](Z z) { return std::log(z); }},
    {"log2", weft::log2, [](Z z) { return std::log(z) / std::log(2.0); }},
    {"log10", weft::log10, [](Z z) { return std::log10(z); }},
    {"log1p", weft::log1p, [](Z z) { return std::log(1.0 + z); }},
    {"sin", weft::sin, [](Z z) { return std::sin(z); }},
    {"cos", weft::cos, [](Z z) { return std::cos(z); }},
    {"tan", weft::tan, [](Z z) { return std::tan(z); }},
    {"asin", weft::asin, [](Z z) { return std::asin(z); }},
    {"acos", weft::acos, [](Z z) { return std::acos(z); }},
    {"atan", weft::atan, [](Z z) { return std::atan(z); }},
    {"sinh", weft::sinh, [](Z z) { return std::sinh(z); }},
    {"cosh", weft::cosh, [](Z z) { return std::cosh(z); }},
    {"tanh", weft::tanh, [](Z z) { return std::tanh(z); }},
    {"asinh", weft::asinh, [](Z z) { return std::asinh(z); }},
    {"acosh", weft::acosh, [](Z z) { return std::acosh(z); }},
    {"atanh", weft::atanh, [](Z z) { return std::atanh(z); }},
    {"sigmoid", weft::sigmoid, [](Z z) { return 1.0 / (1.0 + std::exp(-z)); }},
    {"sinc", weft::sinc, [](Z z) { return std::sin(std::numbers::pi * z) / (std::numbers::pi * z); }},
    {"softsign", weft::softsign, [](Z z) { return z / (1 + std::abs(z)); }},
    {"tanhshrink", weft::tanhshrink, [](Z z) { return z - std::tanh(z); }},
};

class ComplexFunction : public ::testing::TestWithParam<Function> {};

TEST_P(ComplexFunction, HasTheValuesOfTheStandardLibrary) {
  for (const Dims& shape : {Dims{7, 5}, Dims{}, Dims{0, 3}, Dims{4097}}) {
    const Tensor x = random_complex(shape, 1);
    expect_close(GetParam().op(x), elements_through(x, GetParam().of));
  }
  const Tensor wide = random_complex({6, 8}, 2), strided = wide.t().slice(0, 0, 8, 2);
  expect_close(GetParam().op(strided), elements_through(strided, GetParam().of));
  const Tensor narrow = wide.to(c64);
  expect_close(GetParam().op(narrow), elements_through(narrow, GetParam().of), 2e-6);
  EXPECT_EQ(GetParam().op(narrow).dtype(), c64);
}

TEST_P(ComplexFunction, HasGradientsToSecondOrder) {
  const auto f = [](std::span<const Tensor> x) { return GetParam().op(x[0]); };
  const Tensor x = random_complex({3, 2}, 3, 0.3, 0.8).requires_grad_();
  EXPECT_TRUE(gradcheck(f, {x}));
  EXPECT_TRUE(gradgradcheck(f, {x}));
}

INSTANTIATE_TEST_SUITE_P(Rows, ComplexFunction, ::testing::ValuesIn(functions),
                         [](const auto& each) { return each.param.name; });

TEST(ComplexFunctions, SincIsSmoothAtZero) {
  const Tensor x = tensor({Z(0, 0), Z(1e-9, -1e-9), Z(1e-3, 2e-3)}, c128).requires_grad_();
  expect_close(weft::sinc(x), {1, 1, 1.0 + std::pow(std::numbers::pi, 2) / 6 * Z(3e-6, -4e-6)}, 1e-9);
  const Tensor first = grad({sum(real(weft::sinc(x)))}, {x}, {}, {.create_graph = true})[0];
  const double slope = -std::pow(std::numbers::pi, 2) / 3;
  const Tensor second = grad({sum(real(first))}, {x})[0];
  expect_close(second, {slope, slope, slope}, 1e-4);
  expect_close(weft::sinc_(x.detach().clone()), weft::sinc(x).detach().to_vector<Z>());
}

TEST(ComplexFunctions, LogaddexpNeitherOverflowsNorCancels) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor a = tensor({Z(1000, 1), Z(-1000, 1), Z(-inf, 0), Z(inf, 0), Z(0, 0)}, c128);
  const Tensor b = tensor({Z(1000, 1), Z(-1000, 1), Z(-inf, 0), Z(inf, 0), Z(-50, 0)}, c128);
  const double log2 = std::numbers::ln2;
  const auto z = logaddexp(a, b).to_vector<Z>();
  expect_close(logaddexp(a, b).slice(0, 0, 2), {Z(1000 + log2, 1), Z(-1000 + log2, 1)});
  EXPECT_EQ(z[2].real(), -inf);
  EXPECT_EQ(z[3].real(), inf);
  EXPECT_NEAR(z[4].real(), std::exp(-50), 1e-30);
  const Tensor c = a.clone();
  logaddexp_(c, b);
  EXPECT_TRUE(equal(c, logaddexp(a, b)));
  EXPECT_TRUE(equal(logaddexp_out(empty({5}, c128), a, b), c));
}

TEST(ComplexTypes, DropOut) {
  const Tensor z = random_complex({4, 50, 3, 2}, 40).requires_grad_();
  const auto expect = [&](const Tensor& y, double scale) {
    const Tensor gone = y == 0;
    const double share = mean(gone.to(f64)).item<double>();
    EXPECT_GT(share, 0.3);
    EXPECT_LT(share, 0.7);
    EXPECT_TRUE(equal(y, where(gone, 0, z * scale)));
    EXPECT_TRUE(equal(grad({y}, {z}, {ones_like(y)})[0], where(gone, 0, ones_like(z) * scale)));
  };
  expect(dropout(z, 0.5), 2);
  expect(dropout2d(z, 0.5), 2);
  expect(dropout3d(z.unsqueeze(-1), 0.5).squeeze(-1), 2);
  expect(dropout1d(z.reshape({4, 50, 6}), 0.5).reshape(z.shape()), 2);
  for (const Tensor& y : {alpha_dropout(z, 0.5, true), feature_alpha_dropout(z, 0.5, true)}) {
    EXPECT_EQ(y.dtype(), c128);
    EXPECT_GT(sum(eq(y, y.detach().reshape({-1})[0])).item<int64_t>(), 0);
  }
  EXPECT_TRUE(equal(dropout(z, 0.5, false), z));
  EXPECT_TRUE(equal(alpha_dropout(z, 1, true), zeros_like(z)));
}

struct Pair {
  const char* name;
  Tensor (*op)(const Operand&, const Operand&);
  Z (*of)(Z, Z);
};
Z log_add_exp(Z a, Z b) {
  if (a.real() < b.real()) std::swap(a, b);
  return a + std::log(1.0 + std::exp(b - a));
}
const Pair pairs[] = {
    {"add", weft::add, [](Z a, Z b) { return a + b; }},
    {"sub", weft::sub, [](Z a, Z b) { return a - b; }},
    {"mul", weft::mul, [](Z a, Z b) { return a * b; }},
    {"div", weft::div, [](Z a, Z b) { return a / b; }},
    {"pow", weft::pow, [](Z a, Z b) { return std::pow(a, b); }},
    {"logaddexp", weft::logaddexp, log_add_exp},
    {"logaddexp2", weft::logaddexp2,
     [](Z a, Z b) { return log_add_exp(a * std::numbers::ln2, b * std::numbers::ln2) / std::numbers::ln2; }},
};

class ComplexPair : public ::testing::TestWithParam<Pair> {};

TEST_P(ComplexPair, HasTheValuesOfTheStandardLibrary) {
  const Tensor a = random_complex({6, 4}, 4), b = random_complex({6, 4}, 5);
  const auto x = a.to_vector<Z>(), y = b.to_vector<Z>();
  std::vector<Z> wanted;
  for (size_t i = 0; i < x.size(); ++i) wanted.push_back(GetParam().of(x[i], y[i]));
  expect_close(GetParam().op(a, b), wanted);
  expect_close(GetParam().op(a.t(), b.t()).t(), wanted);
  const Tensor row = random_complex({4}, 6);
  const auto repeated = row.to_vector<Z>();
  for (size_t i = 0; i < x.size(); ++i) wanted[i] = GetParam().of(x[i], repeated[i % 4]);
  expect_close(GetParam().op(a, row), wanted);
  const Z number(0.5, -1.5);
  for (size_t i = 0; i < x.size(); ++i) wanted[i] = GetParam().of(x[i], number);
  expect_close(GetParam().op(a, number), wanted);
  for (size_t i = 0; i < x.size(); ++i) wanted[i] = GetParam().of(number, x[i]);
  expect_close(GetParam().op(number, a), wanted);
}

TEST_P(ComplexPair, WithRealOperandsIsComplex) {
  const Tensor z = random_complex({5}, 7), x = rand({5}, f64) + 0.5;
  const auto zs = z.to_vector<Z>();
  const auto xs = x.to_vector<double>();
  std::vector<Z> first, second;
  for (size_t i = 0; i < zs.size(); ++i) {
    first.push_back(GetParam().of(zs[i], xs[i]));
    second.push_back(GetParam().of(xs[i], zs[i]));
  }
  expect_close(GetParam().op(z, x), first);
  expect_close(GetParam().op(x, z), second);
}

TEST_P(ComplexPair, HasGradientsToSecondOrder) {
  const auto f = [](std::span<const Tensor> x) { return GetParam().op(x[0], x[1]); };
  const Tensor a = random_complex({2, 3}, 8, 0.4, 1).requires_grad_();
  const Tensor b = random_complex({3}, 9, 0.4, 1).requires_grad_();
  const Tensor real_b = (rand({3}, f64) + 0.5).requires_grad_();
  EXPECT_TRUE(gradcheck(f, {a, b}));
  EXPECT_TRUE(gradgradcheck(f, {a, b}));
  EXPECT_TRUE(gradcheck(f, {a, real_b}));
  EXPECT_TRUE(gradcheck(f, {real_b, a}));
}

INSTANTIATE_TEST_SUITE_P(Rows, ComplexPair, ::testing::ValuesIn(pairs),
                         [](const auto& each) { return each.param.name; });

TEST(ComplexPow, OverflowsInTheComponentsThatAreTooLarge) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto power = [](Z a, double n, DType dtype) { return pow(tensor({a}, dtype), n)[0].item<Z>(); };
  EXPECT_EQ(power(Z(0, 3e38), 2, c64), Z(-infinity, 0));
  EXPECT_EQ(power(Z(0, 3e38), 4, c64), Z(infinity, 0));
  EXPECT_EQ(power(Z(0, 3e38), -2, c64), Z(0, 0));
  EXPECT_EQ(power(Z(0, 1e-30), -2, c64), Z(-infinity, 0));
  EXPECT_EQ(power(Z(1e20, 1e20), 3, c64), Z(-infinity, infinity));
  EXPECT_EQ(power(Z(0, 1e200), 2, c128), Z(-infinity, 0));
  EXPECT_EQ(power(Z(1e200, 1e200), -4, c128), Z(0, 0));
  EXPECT_EQ(power(Z(0, 1e-200), -2, c128), Z(-infinity, 0));
  EXPECT_EQ(power(Z(3, 4), 2, c64), Z(-7, 24));
  EXPECT_EQ(power(Z(0, 2), -3, c128), Z(0, 0.125));
}

TEST(ComplexDivision, ByZeroOfAnySignIsByPositiveZero) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {c64, c128}) {
    for (const Z zero : {Z(0, 0), Z(-0.0, 0), Z(0, -0.0), Z(-0.0, -0.0)}) {
      const Tensor x = full({9}, Z(1, -2), dtype), y = full({9}, zero, dtype);
      for (const Z z : (x / y).to_vector<Z>()) EXPECT_EQ(z, Z(infinity, -infinity)) << zero;
      for (const Z z : addcdiv(x, x, y).to_vector<Z>()) EXPECT_EQ(z, Z(infinity, -infinity)) << zero;
      for (const Z z : reciprocal(y).to_vector<Z>()) {
        EXPECT_EQ(z.real(), infinity) << zero;
        EXPECT_TRUE(std::isnan(z.imag())) << zero;
      }
    }
  }
}

// ---- products ----

std::vector<Z> product(const std::vector<Z>& a, const std::vector<Z>& b, size_t m, size_t k, size_t n) {
  std::vector<Z> c(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t p = 0; p < k; ++p) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
  return c;
}

TEST(ComplexMatmul, IsTheSumOfProducts) {
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {3, 4, 5}, {17, 33, 9}, {64, 64, 64}}) {
    const Tensor a = random_complex({m, k}, 10), b = random_complex({k, n}, 11);
    const auto wanted = product(a.to_vector<Z>(), b.to_vector<Z>(), static_cast<size_t>(m), static_cast<size_t>(k),
                                static_cast<size_t>(n));
    expect_close(matmul(a, b), wanted, 1e-12);
    expect_close(mm(a.t().contiguous().t(), b), wanted, 1e-12);
    expect_close(matmul(a.unsqueeze(0), b.unsqueeze(0)), wanted, 1e-12);
    expect_close(matmul(a.to(c64), b.to(c64)), wanted, 1e-4);
    expect_close(linear(a, b.t()), wanted, 1e-12);
  }
}

TEST(ComplexMatmul, TakesVectorsAndBatches) {
  const Tensor a = random_complex({2, 3, 4}, 12), b = random_complex({4}, 13), c = random_complex({3}, 14);
  EXPECT_EQ(matmul(a, b).shape(), (Dims{2, 3}));
  EXPECT_EQ(matmul(c, a).shape(), (Dims{2, 4}));
  expect_close(matmul(a, b), (a * b).sum({2}).to_vector<Z>(), 1e-12);
  expect_close(matmul(c, a), (a * c.unsqueeze(1)).sum({1}).to_vector<Z>(), 1e-12);
  expect_close(dot(b, b), {(b * b).sum().item<Z>()}, 1e-12);
  expect_close(matmul(random_complex({2, 0}, 1), random_complex({0, 3}, 1)), std::vector<Z>(6));
  EXPECT_THROW(matmul(a, c), ShapeError);
  EXPECT_THROW(mm(random_complex({2, 3}, 1), random_complex({2, 3}, 1)), ShapeError);
  EXPECT_THROW(matmul(a, b.real()), DTypeError);
}

TEST(ComplexMatmul, HasGradientsToSecondOrder) {
  const auto f = [](std::span<const Tensor> x) { return matmul(x[0], x[1]); };
  const auto leaf = [](const Dims& shape, uint64_t seed) { return random_complex(shape, seed).requires_grad_(); };
  for (const auto& [a, b] : std::vector<std::pair<Dims, Dims>>{{{2, 3}, {3, 2}},
                                                               {{3}, {3, 2}},
                                                               {{2, 3}, {3}},
                                                               {{3}, {3}},
                                                               {{2, 2, 3}, {3, 2}},
                                                               {{2, 1, 1, 2}, {3, 2, 2}}}) {
    EXPECT_TRUE(gradcheck(f, {leaf(a, 15), leaf(b, 16)})) << a.text() << b.text();
    EXPECT_TRUE(gradgradcheck(f, {leaf(a, 15), leaf(b, 16)})) << a.text() << b.text();
  }
}

// ---- sums ----

TEST(ComplexSums, AreThoseOfTheParts) {
  const Tensor x = random_complex({4, 5, 3}, 17);
  const auto parts = [&](auto op) { return weft::complex(op(real(x).contiguous()), op(imag(x).contiguous())); };
  const auto same = [](const Tensor& a, const Tensor& b) {
    EXPECT_EQ(a.shape(), b.shape());
    expect_close(a, b.to_vector<Z>());
  };
  same(x.sum(), parts([](const Tensor& p) { return p.sum(); }));
  same(x.sum({1}, true), parts([](const Tensor& p) { return p.sum({1}, true); }));
  same(x.mean({0, 2}), parts([](const Tensor& p) { return p.mean({0, 2}); }));
  same(cumsum(x, 1), parts([](const Tensor& p) { return cumsum(p, 1); }));
  Z all = 1;
  for (const Z z : x[0].to_vector<Z>()) all *= z;
  expect_close(prod(x[0]), {all}, 1e-12);
  EXPECT_EQ(prod(x, {1}).shape(), (Dims{4, 3}));
  expect_close(prod(random_complex({0}, 1)), {1.0});
  EXPECT_NEAR(var(x).item<double>(), var(real(x)).item<double>() + var(imag(x)).item<double>(), 1e-12);
  EXPECT_TRUE(weft::any(x).item<bool>());
  EXPECT_FALSE(weft::all(x * 0).item<bool>());
  EXPECT_EQ(x.sum({}, false, c128).dtype(), c128);
  EXPECT_EQ(x.to(c64).sum({}, false, c128).dtype(), c128);
  EXPECT_EQ(rand({2}).sum({}, false, c64).dtype(), c64);
}

TEST(ComplexSums, HaveGradientsToSecondOrder) {
  using F = Tensor (*)(std::span<const Tensor>);
  for (const F f : {F([](std::span<const Tensor> x) { return x[0].sum({1}); }),
                    F([](std::span<const Tensor> x) { return x[0].mean({0}, true); }),
                    F([](std::span<const Tensor> x) { return cumsum(x[0] * x[0], 1); }),
                    F([](std::span<const Tensor> x) { return prod(x[0], {1}); }),
                    F([](std::span<const Tensor> x) { return var(x[0], {1}); })}) {
    const Tensor x = random_complex({2, 5}, 18).requires_grad_();
    EXPECT_TRUE(gradcheck(f, {x}));
    EXPECT_TRUE(gradgradcheck(f, {x}));
  }
}

TEST(ComplexSums, ProductsOfNothingHaveAGradient) {
  for (const Dims& shape : {Dims{0, 4}, Dims{4, 0}, Dims(0)}) {
    const Tensor x = zeros(shape, c128).requires_grad_();
    EXPECT_EQ(grad({real(prod(x))}, {x})[0].shape(), shape);
    EXPECT_EQ(prod(x).item<Z>(), Z(1));
    EXPECT_TRUE(prod(x, {0}, true).requires_grad());
  }
}

TEST(ComplexSums, ProductsPastZerosHaveTheirGradient) {
  const Tensor x = tensor({Z(0, 0), Z(1, 2), Z(3, -1)}, c128).requires_grad_();
  real(prod(x)).backward();
  expect_close(x.grad(), {std::conj(Z(1, 2) * Z(3, -1)), 0.0, 0.0});
}

TEST(ComplexSums, ProductsOfSinglePrecisionAreRoundedOnce) {
  const auto same = [](const Tensor& found, const std::vector<Z>& wanted) {
    EXPECT_EQ(found.dtype(), c64);
    expect_close(found, wanted, 1e-6);
  };
  // (1e20 + 1e20i)^2 overflows in single precision, and a product with it would be NaN.
  const Tensor x = tensor({Z(1e20, 1e20), Z(1e20, 1e20), Z(1e-20, -1e-20), Z(1e-20, 0)}, c64).requires_grad_();
  same(prod(x), {Z(2, 2)});
  same(prod(x.reshape({2, 2}), {0}), {Z(2, 0), Z(1, 1)});
  same(cumprod(x, 0).narrow(0, 2, 2), {Z(2e20, 2e20), Z(2, 2)});
  real(prod(x)).backward();
  EXPECT_EQ(x.grad().dtype(), c64);
  expect_close(x.grad()[0], {Z(2e-20, 0)}, 1e-26);
  EXPECT_EQ(prod(x.to(Device("meta"))).dtype(), c64);

  const Tensor beyond = prod(tensor({Z(1e30, 1), Z(1e30, 1)}, c64));
  EXPECT_EQ(beyond.item<Z>(), Z(std::numeric_limits<double>::infinity(), 2e30f));
}

// ---- parts ----

TEST(ComplexParts, AreViews) {
  const Tensor z = random_complex({3, 4}, 19);
  EXPECT_EQ(real(z).dtype(), f64);
  EXPECT_TRUE(real(z).shares_storage(z));
  imag(z).fill_(7);
  for (const Z x : z.to_vector<Z>()) EXPECT_EQ(x.imag(), 7);
  real(z[1]).mul_(2);
  z.t().imag().select(0, 2).zero_();
  EXPECT_EQ(z[1][2].item<Z>().imag(), 0);
  const Tensor pairs = view_as_real(z);
  EXPECT_EQ(pairs.shape(), (Dims{3, 4, 2}));
  EXPECT_TRUE(equal(view_as_complex(pairs), z));
  EXPECT_EQ(view_as_real(z.t()).shape(), (Dims{4, 3, 2}));
  const Tensor x = rand({2});
  EXPECT_TRUE(real(x).shares_storage(x));
}

TEST(ComplexParts, HaveGradientsToSecondOrder) {
  using F = Tensor (*)(std::span<const Tensor>);
  for (const F f : {F([](std::span<const Tensor> x) { return real(x[0]) * imag(x[0]); }),
                    F([](std::span<const Tensor> x) { return view_as_real(x[0]).square(); }),
                    F([](std::span<const Tensor> x) { return abs(x[0]); }),
                    F([](std::span<const Tensor> x) { return angle(x[0]); }),
                    F([](std::span<const Tensor> x) { return sgn(x[0]); }),
                    F([](std::span<const Tensor> x) { return weft::complex(abs(x[0]), angle(x[0])); }),
                    F([](std::span<const Tensor> x) { return polar(angle(x[0]), abs(x[0])); }),
                    F([](std::span<const Tensor> x) { return x[0].to(c128) * conj(x[0]); })}) {
    const Tensor x = random_complex({2, 3}, 20, 0.3, 2).requires_grad_();
    EXPECT_TRUE(gradcheck(f, {x}));
    EXPECT_TRUE(gradgradcheck(f, {x}));
  }
}

TEST(ComplexParts, WritesThroughThemAreRecorded) {
  const auto f = [](std::span<const Tensor> x) {
    const Tensor z = x[0] * x[0];
    real(z).mul_(imag(x[0]));
    imag(z)[0] = real(x[0])[1] * 3;
    view_as_real(z)[1].square_();
    const Tensor p = view_as_complex(view_as_real(z)).exp_();
    return z * p;
  };
  EXPECT_TRUE(gradcheck(f, {random_complex({2, 2}, 21, 0.2, 0.8).requires_grad_()}));
}

TEST(ComplexParts, RejectLastDimensionsOtherThanTwo) {
  EXPECT_THROW(imag(rand({2})), DTypeError);
  EXPECT_THROW(view_as_real(rand({2})), DTypeError);
  EXPECT_THROW(view_as_complex(rand({2, 3})), ShapeError);
  EXPECT_THROW(view_as_complex(rand({2, 2}).t()), ShapeError);
  EXPECT_THROW(view_as_complex(rand({5}).slice(0, 1, 3)), ShapeError);
  EXPECT_THROW(view_as_complex(rand({2}).to(f16)), DTypeError);
  EXPECT_THROW(weft::complex(rand({2}), rand({2}, f64)), DTypeError);
  EXPECT_THROW(weft::complex(rand({2}), rand({3})), ShapeError);
  EXPECT_THROW(view_as_real(random_complex({1, 1, 1, 1, 1, 1, 1, 1}, 1)), ShapeError);
  EXPECT_THROW(real(Tensor()), ValueError);
}

TEST(ComplexParts, AtZeroHaveNoGradient) {
  const Tensor z = zeros({2}, c128).requires_grad_();
  (abs(z).sum() + angle(z).sum() + abs(sgn(z)).sum() + real(sgn(z)).sum()).backward();
  expect_close(z.grad(), {0.0, 0.0});
  const Tensor slope = grad({abs(z).sum()}, {z}, {}, {.create_graph = true})[0];
  expect_close(grad({real(slope).sum()}, {z})[0], {0.0, 0.0});
}

// ---- dtypes ----

TEST(ComplexTypes, ArePromotedFromRealNumbers) {
  EXPECT_EQ(promote(f32, c64), c64);
  EXPECT_EQ(promote(f64, c64), c128);
  EXPECT_EQ(promote(i64, c64), c64);
  EXPECT_EQ(promote(boolean, c128), c128);
  EXPECT_EQ(promote(c64, c128), c128);
  EXPECT_EQ(promote(f16, c64), c64);
  EXPECT_THROW(promote(f8_e5m2, c64), DTypeError);
  EXPECT_EQ((rand({2}) * Z(0, 1)).dtype(), c64);
  EXPECT_EQ((rand({2}, f64) * Z(0, 1)).dtype(), c128);
  EXPECT_EQ((arange(3) * Z(0, 1)).dtype(), c64);
  EXPECT_EQ((rand({2}).to(c64) * 2.0).dtype(), c64);
  EXPECT_EQ((rand({2}).to(c64) * rand({}, f64)).dtype(), c64);
  EXPECT_EQ((Tensor(rand({2})) + Tensor(rand({}, f64).to(c128))).dtype(), c64);
}

TEST(ComplexTypes, ConversionsNeverLoseAnImaginaryPart) {
  const Tensor z = random_complex({3}, 22);
  EXPECT_THROW(z.to(f64), DTypeError);
  EXPECT_THROW(z.to(i32), DTypeError);
  EXPECT_THROW(rand({3}, f64).copy_(z), DTypeError);
  EXPECT_THROW(rand({3}, f64).add_(z), DTypeError);
  EXPECT_THROW(rand({3}, f64)[0] = z[1], DTypeError);
  EXPECT_THROW(z[0].item<double>(), DTypeError);
  EXPECT_THROW(z.to_vector<float>(), DTypeError);
  EXPECT_TRUE(z.to(boolean).all().item<bool>());
  for (const DType t : {boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2,
                        f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu}) {
    const Tensor x = tensor({0.0, 1.0, 1.0}).to(t);
    expect_close(x.to(c64), {0.0, 1.0, 1.0});
    expect_close(x.to(c128), {0.0, 1.0, 1.0});
  }
}

TEST(ComplexTypes, RealLeavesGetRealGradients) {
  const Tensor x = rand({3}, f64).requires_grad_(), z = random_complex({3}, 23);
  real((x * z).sum()).backward();
  EXPECT_EQ(x.grad().dtype(), f64);
  EXPECT_TRUE(allclose(x.grad(), real(z)));
}

TEST(ComplexTypes, BackwardOfAComplexNumberNeedsASeed) {
  const Tensor z = random_complex({1}, 24).requires_grad_();
  EXPECT_THROW(z.square().sum().backward(), AutogradError);
  z.square().backward(ones({1}, c128));
  expect_close(z.grad(), elements_through(z.detach(), [](Z x) { return std::conj(2.0 * x); }));
}

TEST(ComplexTypes, AreOrderedByNothing) {
  const Tensor z = random_complex({3, 3}, 25);
  EXPECT_THROW(z < z, DTypeError);
  EXPECT_THROW(maximum(z, z), DTypeError);
  EXPECT_THROW(amax(z), DTypeError);
  EXPECT_THROW(sort(z), DTypeError);
  EXPECT_THROW(relu(z), DTypeError);
  EXPECT_THROW(floor(z), DTypeError);
  EXPECT_THROW(softmax(z, 0), DTypeError);
  EXPECT_THROW(layer_norm(z, {3}), DTypeError);
  EXPECT_THROW(clip(z, 0, 1), DTypeError);
  EXPECT_THROW(argmax(z), DTypeError);
  EXPECT_THROW(abs_(z), DTypeError);
  EXPECT_EQ((z == z).all().item<bool>(), true);
  EXPECT_EQ((z != z).any().item<bool>(), false);
}

// ---- moving ----

TEST(ComplexMoving, IndexingTakesAndPutsElementsOf16Bytes) {
  for (const DType t : {c64, c128}) {
    const Tensor z = random_complex({50, 40}, 26).to(t);
    const auto all = z.to_vector<Z>();
    const Tensor index = tensor({3, 39, 0, 7});
    const Tensor rows = z[index], columns = z[{Slice(), index}];
    for (int i = 0; i < 4; ++i) {
      const int64_t at = index[i].item<int64_t>();
      for (int j = 0; j < 40; ++j) EXPECT_EQ((rows[{i, j}].item<Z>()), all[static_cast<size_t>(at * 40 + j)]);
      EXPECT_EQ((columns[{11, i}].item<Z>()), all[static_cast<size_t>(11 * 40 + at)]);
    }
    const Tensor mask = real(z) > 0, chosen = z[mask];
    EXPECT_EQ(chosen.numel(), mask.sum().item<int64_t>());
    EXPECT_TRUE((real(chosen) > 0).all().item<bool>());
    const Tensor copy = z.clone();
    copy[mask] = 0;
    EXPECT_TRUE(equal(copy, where(mask, 0, z)));
    copy[mask] = chosen;
    EXPECT_TRUE(equal(copy, z));
    copy[{index, Slice()}] = rows * 2;
    EXPECT_TRUE(equal(copy[index], rows * 2));
    EXPECT_TRUE(equal(gather(z, 1, arange(40).unsqueeze(0).expand({50, 40})), z));
    EXPECT_TRUE(equal(cat({z, z}, 1).narrow(1, 40, 40), z));
    EXPECT_TRUE(equal(z.t().contiguous().t(), z));
    EXPECT_TRUE(equal(flip(flip(z, {0}), {0}), z));
    EXPECT_TRUE(equal(z.slice(1, 39, {}, -3).contiguous(), z[{Slice(), arange(39, -1, -3)}]));
    expect_close(index_add(zeros({2, 40}, t), 0, tensor({0, 0, 1, 0}), rows),
                 stack({rows[0] + rows[1] + rows[3], rows[2]}).to_vector<Z>(), 1e-6);
  }
}

TEST(ComplexMoving, ReadingAndWritingPartsHasGradients) {
  const auto f = [](std::span<const Tensor> x) {
    const Tensor z = x[0].clone();
    z[{Slice(1, none), 0}] = x[0][{Slice(1, none), 1}] * Z(0, 2);
    return z[{tensor({0, 1, 1}), Slice()}].unfold(1, 2, 1);
  };
  const Tensor x = random_complex({2, 3}, 27).requires_grad_();
  EXPECT_TRUE(gradcheck(f, {x}));
  EXPECT_TRUE(gradgradcheck(f, {x}));
}

TEST(ComplexMoving, PrintsBothParts) {
  EXPECT_EQ(tensor({Z(1, 2), Z(-0.5, -3)}).to(c64).text(), "tensor([ 1.0000+2.j, -0.5000-3.j])");
  EXPECT_EQ(zeros({}, c64).text(), "tensor(0.+0.j)");
}

TEST(ComplexMoving, FillsAndCreates) {
  EXPECT_EQ(full({2}, 1.5, c64).to_vector<Z>(), (std::vector<Z>{1.5, 1.5}));
  EXPECT_EQ(eye(2, 2, c128)[0][0].item<Z>(), Z(1));
  EXPECT_EQ(tensor({Z(1, 2)}).dtype(), c64);
  EXPECT_EQ(tensor({Z(1, 2)}, c128)[0].item<Z>(), Z(1, 2));
  EXPECT_EQ(full({2}, Z(1, 2)).dtype(), c64);
  EXPECT_EQ(full({2}, Z(1, 2), c128)[1].item<Z>(), Z(1, 2));
  EXPECT_THROW(full({2}, Z(1, 2), f64), DTypeError);
  EXPECT_EQ(tensor({std::complex<float>(1, 2)}).dtype(), c64);
  EXPECT_EQ(empty({3}, c128).nbytes(), 48);
  EXPECT_TRUE(zeros({0, 2}, c64).sum().item<Z>() == Z(0));
}

// ---- complex numbers as arguments -----------------------------------------------------------------------------------

struct Scaled {
  const char* name;
  std::function<Tensor(const std::vector<Tensor>& in, Scalar factor)> op;
  std::function<Tensor(const std::vector<Tensor>& in, const Tensor& factor)> formula;
  std::vector<Dims> shapes;
};
const std::vector<Scaled>& scaled_ops() {
  using In = const std::vector<Tensor>&;
  using N = const Tensor&;
  const Dims wide{2, 3}, row(3);
  static const std::vector<Scaled> all = {
      {"add",
       [](In x, Scalar a) { return add(x[0], x[1], a); },
       [](In x, N a) { return x[0] + a * x[1]; },
       {wide, row}},
      {"sub",
       [](In x, Scalar a) { return sub(x[0], x[1], a); },
       [](In x, N a) { return x[0] - a * x[1]; },
       {wide, row}},
      {"addcmul",
       [](In x, Scalar a) { return addcmul(x[0], x[1], x[2], a); },
       [](In x, N a) { return x[0] + a * x[1] * x[2]; },
       {wide, row, wide}},
      {"addcdiv",
       [](In x, Scalar a) { return addcdiv(x[0], x[1], x[2], a); },
       [](In x, N a) { return x[0] + a * x[1] / x[2]; },
       {wide, row, wide}},
      {"lerp",
       [](In x, Scalar a) { return lerp(x[0], x[1], a); },
       [](In x, N a) { return x[0] + a * (x[1] - x[0]); },
       {wide, row}},
      {"foreach_add",
       [](In x, Scalar a) { return foreach_add(std::vector{x[0]}, std::vector{x[1]}, a)[0]; },
       [](In x, N a) { return x[0] + a * x[1]; },
       {wide, row}},
      {"foreach_sub",
       [](In x, Scalar a) { return foreach_sub(std::vector{x[0]}, std::vector{x[1]}, a)[0]; },
       [](In x, N a) { return x[0] - a * x[1]; },
       {wide, row}},
      {"foreach_mul",
       [](In x, Scalar a) { return foreach_mul(std::vector{x[0]}, a)[0]; },
       [](In x, N a) { return x[0] * a; },
       {wide}},
      {"foreach_addcmul",
       [](In x, Scalar a) { return foreach_addcmul(std::vector{x[0]}, std::vector{x[1]}, std::vector{x[2]}, a)[0]; },
       [](In x, N a) { return x[0] + a * x[1] * x[2]; },
       {wide, row, wide}},
      {"foreach_addcdiv",
       [](In x, Scalar a) { return foreach_addcdiv(std::vector{x[0]}, std::vector{x[1]}, std::vector{x[2]}, a)[0]; },
       [](In x, N a) { return x[0] + a * x[1] / x[2]; },
       {wide, row, wide}},
      {"foreach_lerp",
       [](In x, Scalar a) { return foreach_lerp(std::vector{x[0]}, std::vector{x[1]}, a)[0]; },
       [](In x, N a) { return x[0] + a * (x[1] - x[0]); },
       {wide, row}},
      {"add_",
       [](In x, Scalar a) { return Tensor((x[0] * 1).add_(x[1], a)); },
       [](In x, N a) { return x[0] + a * x[1]; },
       {wide, row}},
      {"sub_",
       [](In x, Scalar a) { return Tensor((x[0] * 1).sub_(x[1], a)); },
       [](In x, N a) { return x[0] - a * x[1]; },
       {wide, row}},
      {"addmm",
       [](In x, Scalar a) { return addmm(x[0], x[1], x[2], a, a); },
       [](In x, N a) { return a * x[0] + a * matmul(x[1], x[2]); },
       {row, wide, {3, 3}}},
      {"addmv",
       [](In x, Scalar a) { return addmv(x[0], x[1], x[2], a, a); },
       [](In x, N a) { return a * x[0] + a * matmul(x[1], x[2]); },
       {2, wide, row}},
      {"addr",
       [](In x, Scalar a) { return addr(x[0], x[1], x[2], a, a); },
       [](In x, N a) { return a * x[0] + a * outer(x[1], x[2]); },
       {wide, 2, row}},
      {"addbmm",
       [](In x, Scalar a) { return addbmm(x[0], x[1], x[2], a, a); },
       [](In x, N a) { return a * x[0] + a * matmul(x[1], x[2]).sum(0); },
       {{2, 2}, {3, 2, 2}, {3, 2, 2}}},
      {"baddbmm",
       [](In x, Scalar a) { return baddbmm(x[0], x[1], x[2], a, a); },
       [](In x, N a) { return a * x[0] + a * matmul(x[1], x[2]); },
       {{2, 2}, {3, 2, 2}, {3, 2, 2}}},
      {"index_add",
       [](In x, Scalar a) {
         return index_add(x[0], 0, tensor({1, 1}), x[1], a);
       },
       [](In x, N a) {
         return x[0] + a * stack({zeros({3}, x[0].dtype()), x[1].sum(0)});
       },
       {wide, wide}},
  };
  return all;
}

TEST(ComplexNumbers, AreFactorsOfEveryOp) {
  for (const Scaled& op : scaled_ops()) {
    for (const Scalar factor : {Scalar(Z(0.5, -1.5)), Scalar(Z(0, 2)), Scalar(-1.25), Scalar(3)}) {
      SCOPED_TRACE(op.name);
      std::vector<Tensor> in;
      for (const Dims& shape : op.shapes) in.push_back(random_complex(shape, 3 + in.size()));
      const Tensor number = full({}, factor.to_complex(), c128);
      expect_close(op.op(in, factor), op.formula(in, number).to_vector<Z>());
      for (Tensor& x : in) x.requires_grad_();
      const auto f = [&](std::span<const Tensor> x) { return op.op({x.begin(), x.end()}, factor); };
      EXPECT_TRUE(gradcheck(f, in));
      EXPECT_TRUE(gradgradcheck(f, in));
      for (Tensor& x : in) x = x.detach().to(c64);
      EXPECT_EQ(op.op(in, factor).dtype(), c64);
      expect_close(op.op(in, factor), op.formula(in, number.to(c64)).to_vector<Z>(), 1e-5);
    }
  }
}

TEST(ComplexNumbers, AreRefusedAmongRealOnes) {
  for (const Scaled& op : scaled_ops()) {
    SCOPED_TRACE(op.name);
    if (std::string(op.name).ends_with("lerp") || std::string(op.name) == "foreach_mul") continue;  // they widen
    std::vector<Tensor> in;
    for (const Dims& shape : op.shapes) in.push_back(rand(shape, f64));
    EXPECT_THROW(op.op(in, Z(0, 1)), DTypeError);
  }
  const Tensor x = ones({2}), mask = tensor({true, false}), index = tensor({0});
  EXPECT_THROW(x.fill_(Z(1, 2)), DTypeError);
  EXPECT_THROW(full_like(x, Z(1, 2)), DTypeError);
  EXPECT_THROW(x.new_full({2}, Z(1, 2)), DTypeError);
  EXPECT_THROW(masked_fill(x, mask, Z(1, 2)), DTypeError);
  EXPECT_THROW(masked_fill_(x, mask, Z(1, 2)), DTypeError);
  EXPECT_THROW(index_fill(x, 0, index, Z(1, 2)), DTypeError);
  EXPECT_THROW(scatter(x, 0, index, Z(1, 2)), DTypeError);
  EXPECT_THROW(pad(x, {1, 1}, Padding::constant, Z(1, 2)), DTypeError);
  EXPECT_THROW(clip(x, Z(1, 2), {}), DTypeError);
  EXPECT_THROW(x.clamp_(Z(1, 2)), DTypeError);
  EXPECT_THROW(clip(x.to(c64), 0, 1), DTypeError);
  EXPECT_THROW(linspace(0, Z(1, 2), 3, f32), DTypeError);
  EXPECT_THROW(arange(0, Z(1, 2)), DTypeError);
  EXPECT_THROW((void)Scalar(Z(1, 2)).to<double>(), DTypeError);
  EXPECT_EQ(values_of(x), (std::vector<double>{1, 1}));
}

TEST(ComplexNumbers, FillTensors) {
  const Z z(1, 2);
  for (const DType t : {c64, c128}) {
    const Tensor x = zeros({2}, t), mask = tensor({true, false}), index = tensor({0});
    EXPECT_EQ(full({2}, z, t).to_vector<Z>(), (std::vector<Z>{z, z}));
    EXPECT_EQ(full_like(x, z).to_vector<Z>(), (std::vector<Z>{z, z}));
    EXPECT_EQ(x.new_full({1}, z).to_vector<Z>(), (std::vector<Z>{z}));
    EXPECT_EQ(x.clone().fill_(z).to_vector<Z>(), (std::vector<Z>{z, z}));
    EXPECT_EQ(masked_fill(x, mask, z).to_vector<Z>(), (std::vector<Z>{z, 0}));
    EXPECT_EQ(masked_fill_(x.clone(), mask, z).to_vector<Z>(), (std::vector<Z>{z, 0}));
    EXPECT_EQ(index_fill(x, 0, index, z).to_vector<Z>(), (std::vector<Z>{z, 0}));
    EXPECT_EQ(scatter(x, 0, index, z).to_vector<Z>(), (std::vector<Z>{z, 0}));
    EXPECT_EQ(pad(x, {1, 0}, Padding::constant, z).to_vector<Z>(), (std::vector<Z>{z, 0, 0}));
    EXPECT_EQ(where(mask, z, x).to_vector<Z>(), (std::vector<Z>{z, 0}));
  }
  EXPECT_EQ(full({2}, z, boolean).to_vector<bool>(), (std::vector<bool>{true, true}));
  EXPECT_EQ(nn::init::constant_(zeros({1}, c64), z).item<Z>(), z);
}

TEST(ComplexNumbers, AreEndsOfRanges) {
  expect_close(linspace(0, Z(2, 4), 3), {0, Z(1, 2), Z(2, 4)});
  EXPECT_EQ(linspace(0, Z(2, 4), 3).dtype(), c64);
  EXPECT_EQ(linspace(Z(1, 1), 2, 3, c128).dtype(), c128);
  expect_close(linspace(0, 1, 3, c64), {0, 0.5, 1});
  expect_close(logspace(0, Z(0, 1), 3), {1, std::pow(Z(10), Z(0, 0.5)), std::pow(Z(10), Z(0, 1))}, 1e-6);
  expect_close(logspace(0, 1, 2, 10, {.dtype = c128}), {1, 10});
}

TEST(ComplexNumbers, AreDrawnWithTheVarianceOfRealOnes) {
  manual_seed(3);
  for (const DType t : {c64, c128}) {
    const Tensor x = randn({40000}, t), u = rand({40000}, t);
    EXPECT_EQ(x.dtype(), t);
    EXPECT_NEAR(mean(square(real(x))).item<double>(), 0.5, 0.02);
    EXPECT_NEAR(mean(square(imag(x))).item<double>(), 0.5, 0.02);
    EXPECT_NEAR(mean(real(x) * imag(x)).item<double>(), 0, 0.02);
    EXPECT_NEAR(mean(real(u)).item<double>(), 0.5, 0.02);
    EXPECT_NEAR(mean(imag(u)).item<double>(), 0.5, 0.02);
    EXPECT_EQ(randn_like(x).dtype(), t);
    const Tensor shifted = zeros({1000}, t).uniform_(1, 2);
    for (const Tensor& part : {real(shifted), imag(shifted)})
      EXPECT_TRUE(all(logical_and(part >= 1, part < 2)).item<bool>());
    const Tensor y = zeros({40000}, t).normal_(3, 2);
    EXPECT_NEAR(mean(real(y)).item<double>(), 3, 0.05);
    EXPECT_NEAR(mean(imag(y)).item<double>(), 0, 0.05);
    EXPECT_NEAR(mean(square(imag(y))).item<double>(), 2, 0.1);
  }
}

TEST(ComplexTypes, CountAnyPartThatIsNotZero) {
  for (const DType t : {c64, c128}) {
    const Tensor z = tensor({Z(0, 0), Z(0, 1), Z(-0.0, -0.0), Z(2, 0)}, t), zero = zeros({2}, t);
    EXPECT_EQ(nonzero(z).to_vector<int64_t>(), (std::vector<int64_t>{1, 3}));
    EXPECT_EQ(argwhere(z).to_vector<int64_t>(), (std::vector<int64_t>{1, 3}));
    EXPECT_EQ(where(z)[0].to_vector<int64_t>(), (std::vector<int64_t>{1, 3}));
    EXPECT_EQ(count_nonzero(z).item<int64_t>(), 2);
    EXPECT_EQ(z.to(boolean).to_vector<bool>(), (std::vector<bool>{false, true, false, true}));
    EXPECT_EQ(logical_not(z).to_vector<bool>(), (std::vector<bool>{true, false, true, false}));
    EXPECT_TRUE(any(z).item<bool>());
    EXPECT_TRUE(z.select(0, 1).item<bool>());
    EXPECT_FALSE(z.select(0, 2).item<bool>());
    EXPECT_FALSE(any(zero * -1).item<bool>());
    EXPECT_FALSE(all(z).item<bool>());
    EXPECT_TRUE(all(z.slice(0, 1, 2)).item<bool>());
  }
}

TEST(ComplexTypes, NanToNumReplacesPartByPart) {
  const double nan = std::nan(""), inf = HUGE_VAL;
  const Tensor z = tensor({Z(nan, inf), Z(-inf, 1)}, c128);
  expect_close(nan_to_num(z, 3, 5), {Z(3, 5), Z(-std::numeric_limits<double>::max(), 1)});
  expect_close(nan_to_num(z.to(c64)),
               {Z(0, std::numeric_limits<float>::max()), Z(-std::numeric_limits<float>::max(), 1)});
  const Tensor x = tensor({Z(nan, 2)}, c128).requires_grad_();
  (nan_to_num(x) * 2).backward(tensor({Z(1, 1)}, c128));
  expect_close(x.grad(), {Z(0, 2)});
}

// The tables of the Python array API standard.
TEST(ComplexFunctions, HaveTheSpecialValuesOfTheStandard) {
  const double nan = std::nan(""), inf = HUGE_VAL, pi = M_PI;
  const auto expect = [](Tensor (*op)(const Operand&), Z at, Z wanted) {
    const auto same = [](double a, double b) {
      return std::isnan(b) ? std::isnan(a) : std::abs(a - b) < 1e-6 || a == b;
    };
    for (const DType t : {c64, c128}) {
      for (const bool mirrored : {false, true}) {
        const Z z = mirrored ? std::conj(at) : at, w = mirrored ? std::conj(wanted) : wanted;
        const Z found = op(tensor({z}, t)).item<Z>();
        EXPECT_TRUE(same(found.real(), w.real()) && same(found.imag(), w.imag())) << z << ": " << found << w;
        if (w.imag() == 0 && !mirrored) {
          EXPECT_EQ(found.imag(), 0) << z;
        }
      }
    }
  };
  for (const double a : {0.0, -0.0}) expect(expm1, Z(a, 0), Z(0, 0));
  for (const double a : {0.5, -3.0, 100.0}) {
    expect(expm1, Z(a, inf), Z(nan, nan));
    expect(expm1, Z(a, nan), Z(nan, nan));
  }
  expect(expm1, Z(inf, 0), Z(inf, 0));
  expect(expm1, Z(1000, 0), Z(inf, 0));
  expect(expm1, Z(-inf, 1), Z(-1, 0));
  expect(expm1, Z(inf, 1), Z(inf, inf));
  expect(expm1, Z(inf, 2), Z(-inf, inf));
  expect(expm1, Z(-inf, inf), Z(-1, 0));
  expect(expm1, Z(inf, inf), Z(inf, nan));
  expect(expm1, Z(-inf, nan), Z(-1, 0));
  expect(expm1, Z(inf, nan), Z(inf, nan));
  expect(expm1, Z(nan, 0), Z(nan, 0));
  expect(expm1, Z(nan, 1), Z(nan, nan));
  expect(expm1, Z(nan, nan), Z(nan, nan));

  expect(log1p, Z(-1, 0), Z(-inf, 0));
  expect(log1p, Z(2, inf), Z(inf, pi / 2));
  expect(log1p, Z(2, nan), Z(nan, nan));
  expect(log1p, Z(-inf, 1), Z(inf, pi));
  expect(log1p, Z(inf, 1), Z(inf, 0));
  expect(log1p, Z(-inf, inf), Z(inf, 3 * pi / 4));
  expect(log1p, Z(inf, inf), Z(inf, pi / 4));
  expect(log1p, Z(inf, nan), Z(inf, nan));
  expect(log1p, Z(-inf, nan), Z(inf, nan));
  expect(log1p, Z(nan, 1), Z(nan, nan));
  expect(log1p, Z(nan, inf), Z(inf, nan));
  expect(log1p, Z(nan, nan), Z(nan, nan));
  expect(exp2, Z(inf, 0), Z(inf, 0));
  expect(exp2, Z(3, 0), Z(8, 0));
}

// Unsupported ops must raise: c64 and c128 agree, or neither is computed.
TEST(ComplexTypes, EveryOpComputesThemInBothPrecisionsOrRefusesThem) {
  const auto outcome = [](const OpRecord& record, const Values& values) -> std::optional<std::vector<Tensor>> {
    const RngForkGuard guard;
    manual_seed(1);
    try {
      return tensors_in(Values{record.call(values)});
    } catch (const Error&) {
      return {};
    }
  };
  const auto numbers = [](const Tensor& t) {
    std::vector<double> all = real(t.detach()).to(f64).to_vector<double>();
    if (!is_complex(t.dtype())) return all;
    for (const double x : imag(t.detach()).to_vector<double>()) all.push_back(x);
    return all;
  };
  int computed = 0;
  for (const OpRecord& record : op_records()) {
    const std::string name = record.name;
    if (name.starts_with("empty") || name.starts_with("rand")) continue;
    SampleMaker make(c128, {});
    std::vector<Values> samples;
    try {
      samples = record.samples(make);
    } catch (const Error&) {
      continue;
    }
    for (const Values& values : samples) {
      bool any = false;
      const Values narrow = mapped(values, [&](const Tensor& t) {
        any |= t.dtype() == c128;
        return t.dtype() == c128 ? t.to(c64) : t;
      });
      if (!any) continue;
      const auto wide = outcome(record, values), found = outcome(record, narrow);
      ASSERT_EQ(wide.has_value(), found.has_value()) << name;
      if (!wide) continue;
      ++computed;
      ASSERT_EQ(wide->size(), found->size()) << name;
      for (size_t i = 0; i < wide->size(); ++i) {
        const auto a = numbers((*wide)[i]), b = numbers((*found)[i]);
        ASSERT_EQ(a.size(), b.size()) << name;
        for (size_t k = 0; k < a.size(); ++k) {
          EXPECT_LE(std::abs(a[k] - b[k]), 1e-4 * std::max(1.0, std::abs(a[k]))) << name << ", result " << i;
        }
      }
    }
  }
  EXPECT_GT(computed, 300);
}

}  // namespace
}  // namespace weft::testing
