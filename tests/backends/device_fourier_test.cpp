// Fourier transforms on every kind of device, against the CPU's.
#include "device_checks.hpp"

#include <complex>
#include <random>
#include <vector>

#include <weft/autograd/engine.hpp>
#include <weft/ops/complex.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/fft.hpp>
#include <weft/ops/pointwise.hpp>

namespace weft {
namespace {

using namespace test;

Tensor numbers(std::mt19937& random, const Dims& shape, DType t) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.product(); ++i) values.push_back(static_cast<double>(random()) / 0x1p31 - 1);
  return tensor(values).to(f64).reshape(shape).to(t);
}
Tensor complex_numbers(std::mt19937& random, const Dims& shape, DType real) {
  return complex(numbers(random, shape, real), numbers(random, shape, real));
}

/// By the size of the transform: the errors of sums of n numbers grow with its root.
void expect_close(const Tensor& actual, const Tensor& expected, DType real) {
  ASSERT_EQ(actual.dtype(), expected.dtype());
  const double tolerance = real == f64 ? 1e-13 : 4e-6;
  const auto parts = [](const Tensor& x) {
    const Tensor there = x.to(Device());
    return is_complex(x.dtype()) ? view_as_real(there) : there;
  };
  const double size = parts(expected).square().mean().sqrt().to(f64).item<double>();
  expect_near(parts(actual).to(f64), parts(expected).to(f64), 0, tolerance * (size + 1e-3));
}

void expect_all_kinds(Device on, std::mt19937& random, const Dims& shape, int dim, DType real) {
  SCOPED_TRACE(shape.text() + " along " + std::to_string(dim) + " in " + name(real));
  const Tensor x = numbers(random, shape, real), z = complex_numbers(random, shape, real);
  const fft::Options options{.dim = dim};
  expect_close(fft::fft(z.to(on), options), fft::fft(z, options), real);
  expect_close(fft::ifft(z.to(on), options), fft::ifft(z, options), real);
  expect_close(fft::rfft(x.to(on), options), fft::rfft(x, options), real);
  const int64_t n = shape[dim < 0 ? static_cast<int>(shape.size()) + dim : dim];
  for (const int64_t length : {2 * n - 1, 2 * n}) {
    const fft::Options back{.n = length, .dim = dim};
    expect_close(fft::irfft(z.to(on), back), fft::irfft(z, back), real);
  }
}

DEVICE_TEST(FourierTransformsOfEveryLengthAgreeWithTheCpu) {
  std::mt19937 random(1);
  for (int64_t n = 1; n <= 40; ++n) expect_all_kinds(on, random, {3, n}, 1, n % 3 == 0 ? f64 : f32);
  for (const int64_t n : {64, 81, 125, 343, 512, 1000, 1009, 2310, 4096}) expect_all_kinds(on, random, {2, n}, 1, f64);
}

DEVICE_TEST(FourierTransformsTakeAnyDimensionAndStrides) {
  std::mt19937 random(2);
  for (const int dim : {0, 1, 2}) expect_all_kinds(on, random, {6, 11, 8}, dim, f32);
  const Tensor z = complex_numbers(random, {12, 10, 8}, f32);
  const auto strided = [](const Tensor& x) { return x.transpose(0, 2).slice(0, {}, {}, 2).slice(2, 1, {}, 3); };
  const Tensor there = z.to(on);
  for (const int dim : {0, 1, 2}) {
    expect_close(fft::fft(strided(there), {.dim = dim}), fft::fft(strided(z), {.dim = dim}), f32);
  }
  expect_close(fft::fftn(there), fft::fftn(z), f32);
}

DEVICE_TEST(FourierTransformsOfManyLinesRunInParts) {
  std::mt19937 random(3);
  const Tensor z = complex_numbers(random, {700, 4096}, f32), odd = complex_numbers(random, {300, 2039}, f64);
  expect_close(fft::fft(z.to(on)), fft::fft(z), f32);
  expect_close(fft::ifft(odd.to(on)), fft::ifft(odd), f64);
}

DEVICE_TEST(AnInverseOfHalvesReadsNoImaginaryPartOfItsEnds) {
  std::mt19937 random(4);
  Tensor half = complex_numbers(random, {2, 9}, f32);
  for (const int64_t i : {0, 8}) view_as_real(half).select(1, i).select(1, 1).fill_(std::nan(""));
  expect_close(fft::irfft(half.to(on)), fft::irfft(half), f32);
}

DEVICE_TEST(FourierTransformsHaveGradientsAndTheSameBitsInEveryRun) {
  std::mt19937 random(5);
  const Tensor x = numbers(random, {4, 35}, f32);
  const auto gradient = [&](Device device) {
    const Tensor leaf = x.clone().to(device).requires_grad_();
    view_as_real(fft::rfft(leaf)).square().sum().backward();
    return leaf.grad();
  };
  const Tensor first = gradient(on);
  expect_near(first, gradient(Device()), 1e-4, 1e-4);
  expect_equal(gradient(on), first);
}

}  // namespace
}  // namespace weft
