// Fourier transforms: against sums in long double, gradients against differences, and errors. The Python tests compare
// with NumPy on random calls.
#include <cmath>
#include <complex>
#include <numbers>
#include <thread>

#include <gtest/gtest.h>
#include <weft/weft.hpp>

using namespace weft;
using Z = std::complex<double>;

namespace {

Tensor random_complex(const Dims& shape, uint64_t seed) {
  Generator generator(seed);
  const Tensor re = randn(shape, f64, &generator), im = randn(shape, f64, &generator);
  return weft::complex(re, im);
}

std::vector<Z> by_definition(const std::vector<Z>& x, bool inverse) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<Z> out;
  for (int64_t k = 0; k < n; ++k) {
    std::complex<long double> sum = 0;
    for (int64_t t = 0; t < n; ++t) {
      const long double angle = 2 * std::numbers::pi_v<long double> * static_cast<long double>(k * t % n) / n;
      sum += std::complex<long double>(x[static_cast<size_t>(t)]) * std::polar(1.0L, inverse ? angle : -angle);
    }
    out.emplace_back(sum);
  }
  return out;
}

double distance(const Tensor& found, const std::vector<Z>& wanted) {
  const auto z = found.to_vector<Z>();
  EXPECT_EQ(z.size(), wanted.size());
  double worst = 0, largest = 1;
  for (size_t i = 0; i < z.size(); ++i) {
    worst = std::max(worst, std::abs(z[i] - wanted[i]));
    largest = std::max(largest, std::abs(wanted[i]));
  }
  return worst / largest;
}

TEST(Fourier, IsItsDefinitionForEveryKindOfLength) {
  for (const int64_t n : {1,  2,  3,  4,  5,  6,  7,  8,   9,   11,  13,  16,  19,   25,  29,
                          31, 32, 37, 49, 60, 64, 97, 128, 169, 210, 256, 961, 1009, 1024}) {
    for (const int64_t lines : {1, 3, 17}) {
      const Tensor x = random_complex({lines, n}, static_cast<uint64_t>(n));
      const Tensor y = fft::fft(x), back = fft::ifft(x, {.norm = fft::Norm::forward});
      for (const int64_t l : {int64_t{0}, lines - 1}) {
        const auto line = x[l].to_vector<Z>();
        EXPECT_LT(distance(y[l], by_definition(line, false)), 2e-15 * (1 + std::log2(n))) << n;
        EXPECT_LT(distance(back[l], by_definition(line, true)), 2e-15 * (1 + std::log2(n))) << n;
      }
      EXPECT_LT(distance(fft::fft(x.to(c64)), y.to_vector<Z>()), 2e-6) << n;
    }
  }
}

TEST(Fourier, OfRealNumbersIsHalfOfTheWhole) {
  for (const int64_t n : {1, 2, 3, 4, 7, 10, 16, 30, 37, 74, 100, 1024, 4096, 8192, 10000}) {
    const Tensor x = real(random_complex({2, n}, static_cast<uint64_t>(n))).contiguous();
    const Tensor half = fft::rfft(x), whole = fft::fft(x);
    EXPECT_LT(distance(half, whole.narrow(1, 0, n / 2 + 1).to_vector<Z>()), 1e-14) << n;
    EXPECT_TRUE(allclose(fft::irfft(half, {.n = n}), x, 1e-10, 1e-12)) << n;
    EXPECT_TRUE(allclose(fft::rfft(x.t(), {.dim = 0}).t(), half, 1e-10, 1e-12)) << n;
  }
}

TEST(Fourier, AddsUpThePlacesOfShiftedSignals) {
  const Tensor a = random_complex({40}, 1), b = random_complex({40}, 2);
  Tensor circular = zeros({40}, c128);
  for (int64_t i = 0; i < 40; ++i) circular = circular + a[i] * roll(b, Dims{i}, Dims{0});
  EXPECT_LT(distance(fft::ifft(fft::fft(a) * fft::fft(b)), circular.to_vector<Z>()), 1e-13);
}

TEST(Fourier, LeavesItsOperandsUnchanged) {
  for (const int64_t n : {8, 37, 4096, 8192}) {
    const Tensor x = random_complex({3, n}, 3), copy = x.clone();
    fft::fft(x);
    fft::irfft(x);
    EXPECT_TRUE(equal(x, copy));
    const Tensor r = real(x).contiguous(), reals = r.clone();
    fft::rfft(r);
    EXPECT_TRUE(equal(r, reals));
  }
}

TEST(Fourier, TakesAnyStrides) {
  const Tensor x = random_complex({6, 10, 4}, 4);
  for (int dim = 0; dim < 3; ++dim) {
    const auto wanted = fft::fft(x, {.dim = dim}).to_vector<Z>();
    const Tensor spread = zeros({12, 20, 8}, c128),
                 view = spread.slice(0, 1, {}, 2).slice(1, 0, {}, 2).slice(2, 1, {}, 2);
    view.copy_(x);
    EXPECT_LT(distance(fft::fft(view, {.dim = dim}), wanted), 1e-14);
    EXPECT_LT(distance(fft::fft(flip(x, {0, 1, 2}).slice(0, {}, {}, -1).slice(1, {}, {}, -1).slice(2, {}, {}, -1),
                                {.dim = dim}),
                       wanted),
              1e-14);
    EXPECT_LT(distance(fft::fft(x[0].unsqueeze(0).expand({6, 10, 4}), {.dim = dim})[1],
                       fft::fft(x[0].unsqueeze(0).expand({6, 10, 4}).contiguous(), {.dim = dim})[1].to_vector<Z>()),
              1e-14);
  }
}

TEST(Fourier, HasGradientsToSecondOrder) {
  using F = Tensor (*)(std::span<const Tensor>);
  const auto check = [](F f, const Tensor& x) {
    EXPECT_TRUE(gradcheck(f, {x.detach().requires_grad_()}));
    EXPECT_TRUE(gradgradcheck(f, {x.detach().requires_grad_()}));
  };
  const Tensor z = random_complex({2, 5}, 5), even = random_complex({2, 4}, 6);
  for (const Tensor& x : {z, even}) {
    check([](std::span<const Tensor> t) { return fft::fft(t[0], {.norm = fft::Norm::ortho}); }, x);
    check([](std::span<const Tensor> t) { return fft::ifft(t[0], {.n = 3}); }, x);
    check([](std::span<const Tensor> t) { return fft::irfft(t[0]); }, x);
    check([](std::span<const Tensor> t) { return fft::irfft(t[0], {.n = 7}); }, x);
    check([](std::span<const Tensor> t) { return fft::hfft(t[0], {.norm = fft::Norm::ortho}); }, x);
    check([](std::span<const Tensor> t) { return fft::rfft(t[0], {.n = 6}); }, real(x).contiguous());
    check([](std::span<const Tensor> t) { return fft::ihfft(t[0]); }, real(x).contiguous());
    check([](std::span<const Tensor> t) { return fft::irfftn(t[0]); }, x);
    check([](std::span<const Tensor> t) { return abs(fft::fftn(t[0])); }, x);
  }
}

TEST(Fourier, RejectsInvalidArguments) {
  const Tensor x = rand({4, 6});
  EXPECT_THROW(fft::fft(x, {.n = 0}), ValueError);
  EXPECT_THROW(fft::fft(rand({3, 0})), ValueError);
  EXPECT_THROW(fft::fft(x, {.dim = 2}), IndexError);
  EXPECT_THROW(fft::fft(rand({})), IndexError);
  EXPECT_THROW(fft::rfft(x.to(c64)), DTypeError);
  EXPECT_THROW(fft::irfft(rand({1})), ValueError);
  EXPECT_THROW(fft::fftn(x, {.s = Dims{2}, .dims = Dims{0, 1}}), ShapeError);
  EXPECT_THROW(fft::fftn(x, {.s = Dims{2, 2, 2}}), ShapeError);
  EXPECT_THROW(fft::fftn(x, {.dims = Dims{0, -2}}), ValueError);
  EXPECT_THROW(fft::fft(Tensor()), ValueError);
  EXPECT_EQ(fft::fft(zeros({0, 4})).shape(), (Dims{0, 4}));
  EXPECT_EQ(fft::fft(arange(4)).dtype(), c64);
  EXPECT_EQ(fft::fft(x.to(f16)).dtype(), c64);
  EXPECT_TRUE(isnan(real(fft::fft(tensor({double{NAN}, 1.0})))).all().item<bool>());
}

TEST(Fourier, RunsInManyThreadsAtOnce) {
  const Tensor x = random_complex({5, 1200}, 7);
  const auto wanted = fft::fft(x).to_vector<Z>();
  std::vector<std::thread> threads;
  std::vector<double> apart(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        fft::fft(random_complex({2, 100 + 10 * t + i}, 8));
        apart[static_cast<size_t>(t)] = std::max(apart[static_cast<size_t>(t)], distance(fft::fft(x), wanted));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const double d : apart) EXPECT_EQ(d, 0);
}

TEST(Stft, HasGradientsAndAnInverse) {
  const Tensor x = real(random_complex({2, 20}, 9)).contiguous().requires_grad_();
  const auto f = [](std::span<const Tensor> t) { return stft(t[0], 6, {.hop_length = 2, .normalized = true}); };
  EXPECT_TRUE(gradcheck(f, {x}));
  const auto inverse = [](std::span<const Tensor> t) { return istft(t[0], 6, {.hop_length = 2, .length = 20}); };
  EXPECT_TRUE(gradcheck(inverse, {stft(x.detach(), 6, {.hop_length = 2}).requires_grad_()}));
  EXPECT_TRUE(allclose(istft(stft(x, 6, {.hop_length = 2}), 6, {.hop_length = 2, .length = 20}), x, 1e-9, 1e-12));
}

TEST(Stft, RejectsInvalidArguments) {
  const Tensor x = rand({20});
  EXPECT_THROW(stft(rand({2, 2, 20}), 8), ShapeError);
  EXPECT_THROW(stft(x, 30, {.center = false}), ShapeError);
  EXPECT_THROW(stft(x, 8, {.hop_length = 0}), ValueError);
  EXPECT_THROW(stft(x, 8, {.win_length = 9}), ValueError);
  const Tensor spectrum = stft(x, 8);
  EXPECT_THROW(istft(spectrum, 8, {.length = INT64_MAX - 1}), ValueError);
  EXPECT_THROW(istft(spectrum, 8, {.hop_length = INT64_MAX / 2}), ValueError);
  EXPECT_THROW(istft(spectrum, 8, {.length = -5}), ShapeError);
  EXPECT_THROW(stft(x, 8, {.window = ones({7})}), ShapeError);
  EXPECT_THROW(stft(x.to(c64), 8, {.onesided = true}), ValueError);
  EXPECT_THROW(istft(x, 8), DTypeError);
  EXPECT_THROW(istft(zeros({4, 3}, c64), 8, {.onesided = true}), ShapeError);
  EXPECT_THROW(istft(zeros({5, 3}, c64), 8, {.window = zeros({8})}), ValueError);
}

}  // namespace
