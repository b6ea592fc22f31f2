// Complex tensors on devices, beside the CPU.
#include <complex>

#include <weft/weft.hpp>

#include "device_checks.hpp"

namespace weft::test {
namespace {

using Z = std::complex<double>;

Tensor random_complex(const Dims& shape) { return complex(randn(shape), randn(shape)); }

void expect_near(const Tensor& found, const Tensor& wanted) {
  ASSERT_EQ(found.dtype(), wanted.dtype());
  ASSERT_EQ(found.shape(), wanted.shape());
  const auto a = found.to(Device()).to_vector<Z>(), e = wanted.to_vector<Z>();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LE(std::abs(a[i] - e[i]), 1e-5 * std::max(1.0, std::abs(e[i]))) << i;
}

DEVICE_TEST(ComplexArithmeticEqualsTheCpus) {
  const Tensor x = random_complex({5, 4}), y = random_complex({4}), a = x.to(on), b = y.to(on);
  expect_near(a + b, x + y);
  expect_near(a - b, x - y);
  expect_near(a * b, x * y);
  expect_near(a / b, x / y);
  expect_near(a * Z(0, 2), x * Z(0, 2));
  expect_near(Z(1, 1) - a, Z(1, 1) - x);
  expect_near(2.0 * a, 2.0 * x);
  for (Tensor (*f)(const Operand&) : {neg, conj, square, reciprocal, exp, log, sqrt, sin, cos, sinh, cosh}) {
    expect_near(f(a), f(x));
  }
  expect_near(matmul(a, b), matmul(x, y));
  expect_near(a.sum({0}), x.sum({0}));
  expect_near(abs(a).to(c64), abs(x).to(c64));
  EXPECT_THROW(tan(a), DTypeError);
}

DEVICE_TEST(ComplexNumbersAreWrittenInPlace) {
  const Tensor x = random_complex({5, 4}), y = random_complex({4}), a = x.to(on), b = y.to(on);
  a.mul_(b), x.mul_(y);
  expect_near(a, x);
  a.t().div_(a.t() + 3), x.t().div_(x.t() + 3);
  expect_near(a, x);
  a.mul_(Z(0.5, 2)).sub_(b).mul_(2.0).neg_().exp_(), x.mul_(Z(0.5, 2)).sub_(y).mul_(2.0).neg_().exp_();
  expect_near(a, x);
  const Tensor out = zeros({5, 4}, {c64, on});
  mul_out(out, a, b);
  expect_near(out, x * y);
  square_out(out, a);
  expect_near(out, square(x));
  const Tensor leaf = y.to(on).requires_grad_(), same = y.detach().requires_grad_();
  (leaf * 1).mul_(leaf).abs().sum().backward();
  (same * 1).mul_(same).abs().sum().backward();
  expect_near(leaf.grad(), same.grad());
}

DEVICE_TEST(ComplexElementsMoveAsTheyDoOnTheCpu) {
  const Tensor x = random_complex({6, 5}), a = x.to(on), index = tensor({4, 0, 4});
  expect_near(a.t(), x.t());
  expect_near(a.t().contiguous(), x.t().contiguous());
  expect_near(a[index.to(on)], x[index]);
  expect_near(index_add(zeros({6, 5}, {c64, on}), 0, index.to(on), a.narrow(0, 0, 3)),
              index_add(zeros({6, 5}, c64), 0, index, x.narrow(0, 0, 3)));
  expect_near(real(a).to(c64), real(x).to(c64));
  expect_near(complex(real(a), imag(a)), x);
  EXPECT_THROW(a.to(f32), DTypeError);
  const Tensor leaf = x.to(on).requires_grad_(), same = x.detach().requires_grad_();
  abs(leaf * leaf).sum().backward();
  abs(same * same).sum().backward();
  expect_near(leaf.grad(), same.grad());
}

DEVICE_TEST(FourierTransformsEqualTheCpus) {
  const Tensor x = random_complex({3, 12}), a = x.to(on);
  expect_near(fft::fft(a), fft::fft(x));
  expect_near(fft::rfft(real(a)), fft::rfft(real(x)));
  expect_near(fft::irfft(a).to(c64), fft::irfft(x).to(c64));
  EXPECT_EQ(fft::fft(a).device(), on);
}

}  // namespace
}  // namespace weft::test
