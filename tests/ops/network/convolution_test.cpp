// Convolutions and norms of channels: values by their definition in double precision, large and awkward shapes, errors.
#include <array>
#include <random>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

#include "ops/values.hpp"

namespace weft {
namespace {

struct Case {
  int64_t n, c, o, groups;
  Dims in, kernel, stride, padding, dilation;
};

int64_t offset(const Dims& sizes, std::initializer_list<int64_t> at) {
  int64_t result = 0, d = 0;
  for (const int64_t i : at) result = result * sizes[static_cast<int>(d++)] + i;
  return result;
}

// Σ x[...] w[...] over channels and taps, where the input is inside.
std::vector<double> by_definition(const Case& c, const std::vector<double>& x, const std::vector<double>& w,
                                  const Dims& y) {
  std::vector<double> out(static_cast<size_t>(y.product()));
  const int64_t channels = c.c / c.groups, outputs = c.o / c.groups;
  const Dims xs{c.n, c.c, c.in[0], c.in[1]}, ws{c.o, channels, c.kernel[0], c.kernel[1]};
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t o = 0; o < c.o; ++o)
      for (int64_t i = 0; i < y[2]; ++i)
        for (int64_t j = 0; j < y[3]; ++j)
          for (int64_t k = 0; k < channels; ++k)
            for (int64_t p = 0; p < c.kernel[0]; ++p)
              for (int64_t q = 0; q < c.kernel[1]; ++q) {
                const int64_t u = i * c.stride[0] - c.padding[0] + p * c.dilation[0];
                const int64_t v = j * c.stride[1] - c.padding[1] + q * c.dilation[1];
                if (u < 0 || v < 0 || u >= c.in[0] || v >= c.in[1]) continue;
                out[static_cast<size_t>(offset(y, {n, o, i, j}))] +=
                    x[static_cast<size_t>(offset(xs, {n, o / outputs * channels + k, u, v}))] *
                    w[static_cast<size_t>(offset(ws, {o, k, p, q}))];
              }
  return out;
}

Case random_case(std::mt19937& random) {
  const auto any = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  const int64_t groups = any(0, 2) == 0 ? any(2, 4) : 1;
  // Small numbers of channels, and those that fill blocks.
  const bool many = any(0, 3) == 0;
  const int64_t channels = many ? any(6, 18) : any(1, 3), outputs = many ? any(8, 20) : any(1, 14);
  Case c{any(1, many ? 3 : 10), groups * channels, groups * outputs, groups, {}, {}, {}, {}, {}};
  for (int d = 0; d < 2; ++d) {
    c.kernel.push_back(any(1, 4));
    c.dilation.push_back(any(1, 3));
    c.padding.push_back(any(0, 4));
    c.stride.push_back(any(1, 3));
    const int64_t extent = (c.kernel[d] - 1) * c.dilation[d] + 1;
    c.in.push_back(std::max<int64_t>(1, extent - 2 * c.padding[d]) + any(0, d == 1 || any(0, 4) == 0 ? 40 : 6));
  }
  return c;
}

TEST(Convolution, IsTheSumUnderTheKernelForRandomShapes) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const Case c = random_case(random);
    const Tensor x = randn({c.n, c.c, c.in[0], c.in[1]}, f64),
                 w = randn({c.o, c.c / c.groups, c.kernel[0], c.kernel[1]}, f64);
    const Tensor y = conv2d(x, w, {}, {c.stride, c.padding, c.dilation, c.groups});
    const std::vector<double> want = by_definition(c, x.to_vector<double>(), w.to_vector<double>(), y.shape());
    EXPECT_TRUE(allclose(y, tensor(std::span<const double>(want), y.shape(), f64), 1e-10, 1e-10))
        << trial << ": x " << x.shape().text() << " w " << w.shape().text();
    const Tensor y32 = conv2d(x.to(f32), w.to(f32), {}, {c.stride, c.padding, c.dilation, c.groups});
    EXPECT_TRUE(allclose(y32.to(f64), y, 1e-3, 1e-4)) << trial;
  }
}

// <g, F(x, w)> = <X(g, w), x> = <W(x, g), w>: the three products are one form.
TEST(Convolution, ItsGradientsAreAdjointForRandomShapes) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    const Case c = random_case(random);
    const Tensor x = randn({c.n, c.c, c.in[0], c.in[1]}, f64).requires_grad_();
    const Tensor w = randn({c.o, c.c / c.groups, c.kernel[0], c.kernel[1]}, f64).requires_grad_();
    const Tensor y = conv2d(x, w, {}, {c.stride, c.padding, c.dilation, c.groups});
    const Tensor g = randn(y.shape(), f64);
    y.backward(g);
    const double form = (g * y).sum().item<double>();
    EXPECT_NEAR((x.grad() * x).sum().item<double>(), form, 1e-8 * (1 + std::abs(form))) << trial;
    EXPECT_NEAR((w.grad() * w).sum().item<double>(), form, 1e-8 * (1 + std::abs(form))) << trial;

    const Tensor x32 = x.detach().to(f32).requires_grad_(), w32 = w.detach().to(f32).requires_grad_();
    conv2d(x32, w32, {}, {c.stride, c.padding, c.dilation, c.groups}).backward(g.to(f32));
    for (const auto& [single, exact] : {std::pair{x32.grad(), x.grad()}, std::pair{w32.grad(), w.grad()}}) {
      const double most = exact.abs().max().item<double>();
      EXPECT_LT((single.to(f64) - exact).abs().max().item<double>(), 1e-4 * (1 + most)) << trial;
    }
  }
}

TEST(Convolution, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  // By groups, by images, by parts of one image, by channel, by a sum over images.
  for (const auto& [n, channels, outputs, groups] :
       {std::array{9, 6, 8, 2}, std::array{9, 8, 16, 1}, std::array{1, 128, 64, 1}, std::array{5, 16, 16, 16},
        std::array{11, 3, 8, 1}}) {
    const Tensor x = randn({n, channels, 20, 33}).requires_grad_(), b = randn({outputs});
    const Tensor w = randn({outputs, channels / groups, 3, 3}).requires_grad_();
    const auto all = [&] {
      x.set_grad({});
      w.set_grad({});
      const Tensor y = conv2d(x, w, b, {.padding = 1, .groups = groups});
      y.square().sum().backward();
      return std::vector{y.detach(), x.grad(), w.grad()};
    };
    set_num_threads(1);
    const std::vector<Tensor> alone = all();
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      const std::vector<Tensor> together = all();
      for (size_t i = 0; i < alone.size(); ++i) {
        EXPECT_TRUE(equal(alone[i], together[i])) << channels << " channels, " << threads << " threads, " << i;
      }
    }
  }
  set_num_threads(before);
}

TEST(Convolution, TakesStridedExpandedAndChannelsLastOperands) {
  const Tensor x = randn({2, 7, 9, 4}), w = randn({5, 3, 3, 4});
  const Tensor last = x.permute({0, 3, 1, 2}), weight = w.permute({0, 3, 1, 2});
  EXPECT_TRUE(allclose(conv2d(last, weight), conv2d(last.contiguous(), weight.contiguous())));
  const Tensor one = randn({1, 4, 6, 6}), many = one.expand({3, 4, 6, 6});
  EXPECT_TRUE(allclose(conv2d(many, weight)[2], conv2d(one, weight)[0]));
  const Tensor flipped = x.permute({0, 3, 1, 2}).slice(3, {}, {}, -1);
  EXPECT_TRUE(allclose(conv2d(flipped, weight), conv2d(flipped.contiguous(), weight)));
}

TEST(Convolution, InfinitiesAndNaNStayWhereTheyReach) {
  const Tensor x = zeros({1, 1, 5, 5});
  x[{0, 0, 2, 2}] = std::numeric_limits<float>::quiet_NaN();
  const Tensor y = conv2d(x, ones({1, 1, 3, 3}), {}, {.padding = 1});
  EXPECT_EQ(isnan(y).sum().item<int64_t>(), 9);
  EXPECT_EQ(y.to_vector<float>()[0], 0);
}

TEST(Convolution, GradientsOfInfinitiesReachTheirSums) {
  std::mt19937 random(13);
  for (int trial = 0; trial < 100; ++trial) {
    const Case c = random_case(random);
    const auto gradients = [&](DType dtype, const Tensor& x, const Tensor& w, const Tensor& seed) {
      const Tensor a = x.to(dtype).detach().requires_grad_(), b = w.to(dtype).detach().requires_grad_();
      const Tensor y = conv2d(a, b, {}, {c.stride, c.padding, c.dilation, c.groups});
      return grad({y}, {a, b}, {seed.to(dtype).expand(y.shape())});
    };
    const Tensor x = randn({c.n, c.c, c.in[0], c.in[1]}), w = randn({c.o, c.c / c.groups, c.kernel[0], c.kernel[1]});
    const Tensor spot = trial % 2 == 0 ? x.flatten() : w.flatten();
    spot[randint(0, spot.numel(), {1}).item<int64_t>()] = std::numeric_limits<float>::infinity();
    const auto single = gradients(f32, x, w, tensor({1.5f})), exact = gradients(f64, x, w, tensor({1.5f}));
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_TRUE(equal(isnan(single[i]), isnan(exact[i]))) << trial;
      EXPECT_TRUE(equal(isinf(single[i]), isinf(exact[i]))) << trial;
    }
  }
}

TEST(Convolution, OfSingleChannelsTakesAnyStrideAndDilation) {
  const int64_t huge = int64_t{1} << 31;
  const Tensor x = randn({1, 3, 4, 5}).requires_grad_(), w = randn({3, 1, 2, 2}).requires_grad_();
  const Tensor far = conv2d(x, w, {}, {.stride = huge, .padding = 1, .groups = 3});
  const Tensor near = conv2d(x, w, {}, {.stride = 100, .padding = 1, .groups = 3});
  EXPECT_TRUE(equal(far, near));
  EXPECT_TRUE(equal(grad({far}, {x, w}, {ones_like(far)})[1], grad({near}, {x, w}, {ones_like(near)})[1]));
  // Both taps of the only output are outside the data.
  const Tensor wide =
      conv2d(x, w, {}, {.stride = {1, 1 << 20}, .padding = {0, 500000}, .dilation = {1, 1000000}, .groups = 3});
  EXPECT_EQ(wide.shape(), Dims({1, 3, 3, 1}));
  EXPECT_TRUE(equal(wide, zeros_like(wide)));
}

TEST(Convolution, SixteenBitsAreComputedInF32AndRoundedOnce) {
  const Tensor x = randn({2, 16, 9, 9}).to(bf16), w = randn({4, 16, 3, 3}).to(bf16), b = randn({4}).to(bf16);
  const Tensor y = conv2d(x, w, b);
  EXPECT_EQ(y.dtype(), bf16);
  EXPECT_TRUE(equal(y, conv2d(x.to(f32), w.to(f32), b.to(f32)).to(bf16)));
}

TEST(Convolution, ErrorsNameTheShapes) {
  const Tensor x = zeros({1, 4, 8, 8}), w = zeros({6, 4, 3, 3});
  EXPECT_THROW(conv2d(x, zeros({6, 3, 3, 3})), ShapeError);
  EXPECT_THROW(conv2d(x, w, zeros({5})), ShapeError);
  EXPECT_THROW(conv2d(x, w, {}, {.groups = 2}), ShapeError);
  EXPECT_THROW(conv2d(x, zeros({6, 4, 9, 3})), ShapeError);
  EXPECT_THROW(conv2d(x, zeros({6, 4, 0, 3})), ShapeError);
  EXPECT_THROW(conv2d(x[0][0], w), ShapeError);
  EXPECT_THROW(conv2d(x, w.to(f64)), DTypeError);
  EXPECT_THROW(conv2d(x.to(DType::boolean), w.to(DType::boolean)), DTypeError);
  EXPECT_THROW(conv2d(x, w, {}, {.stride = 0}), ValueError);
  EXPECT_THROW(conv2d(x, w, {}, {.stride = {1, 2, 3}}), ValueError);
  EXPECT_THROW(conv2d(x, w, {}, {.padding = -1}), ValueError);
  EXPECT_THROW(conv2d(x, w, {}, {.stride = 2, .padding = "same"}), ValueError);
  EXPECT_THROW(conv2d(x, w, {}, {.padding = "full"}), ValueError);
  EXPECT_THROW(conv2d({}, w), ValueError);
  constexpr int64_t huge = int64_t{1} << 62;
  EXPECT_THROW(conv2d(x, w, {}, {.padding = huge}), ShapeError);
  EXPECT_THROW(conv2d(x, w, {}, {.dilation = huge}), ShapeError);
  EXPECT_THROW(conv2d(x, w, {}, {.groups = huge}), ShapeError);
  EXPECT_EQ(conv2d(x, w, {}, {.stride = huge}).shape(), Dims({1, 6, 1, 1}));
  EXPECT_THROW(conv_transpose2d(x, zeros({4, 2, 3, 3}), {}, {.stride = huge}), ShapeError);
  EXPECT_THROW(conv_transpose2d(x, zeros({4, 2, 3, 3}), {}, {.output_padding = 1}), ValueError);
  try {
    conv2d(x, zeros({6, 3, 3, 3}));
    FAIL();
  } catch (const ShapeError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("[conv2d] x has 4 channels, the weight takes 3 in each of 1 groups"), std::string::npos)
        << text;
    EXPECT_NE(text.find("convolution_test.cpp"), std::string::npos) << text;
  }
}

TEST(BatchNorm, MovesTheRunningStatistics) {
  const Tensor x = randn({6, 3, 10}, f64) * 2 + 1, mean = zeros({3}, f64), variance = ones({3}, f64);
  batch_norm(x, mean, variance, {}, {}, {.training = true, .momentum = 0.25});
  EXPECT_TRUE(allclose(mean, x.mean({0, 2}) * 0.25, 1e-12, 1e-12));
  EXPECT_TRUE(allclose(variance, x.var({0, 2}) * 0.25 + 0.75, 1e-12, 1e-12));
  const Tensor before = mean.clone();
  batch_norm(x, mean, variance);
  EXPECT_TRUE(equal(mean, before));
}

TEST(BatchNorm, MovesNeitherStatisticWhereOneCannotBeWritten) {
  const Tensor x = randn({4, 3, 5}), mean = zeros(3), expanded = ones(1).expand({3});
  EXPECT_THROW(batch_norm(x, mean, expanded, {}, {}, {.training = true}), ValueError);
  EXPECT_THROW(instance_norm(x, mean, expanded), ValueError);
  EXPECT_EQ(mean.version(), 0u);
  EXPECT_TRUE(equal(mean, zeros(3)));
}

TEST(GroupNorm, TakesAnyNumberOfGroupsOfNoChannels) {
  EXPECT_EQ(group_norm(zeros({5, 0, 2}), INT64_MAX).shape(), Dims({5, 0, 2}));
}

TEST(BatchNorm, HoldsItsDigitsFarFromZero) {
  const Tensor x = randn({8, 2, 64}, f64), far = x + 1e4;
  const Tensor want = batch_norm(x, {}, {}, {}, {}, {.training = true});
  EXPECT_TRUE(allclose(batch_norm(far.to(f32), {}, {}, {}, {}, {.training = true}).to(f64), want, 0.0, 2e-3));
}

TEST(BatchNorm, ErrorsNameTheShapes) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_THROW(batch_norm(zeros({3}), {}, {}, {}, {}, {.training = true}), ShapeError);
  EXPECT_THROW(batch_norm(x, {}, {}), ValueError);
  EXPECT_THROW(batch_norm(x, zeros({2}), ones({3})), ShapeError);
  EXPECT_THROW(batch_norm(x, {}, {}, ones({3}, i64), {}, {.training = true}), DTypeError);
  EXPECT_THROW(batch_norm(x.to(i64), {}, {}, {}, {}, {.training = true}), DTypeError);
  EXPECT_THROW(group_norm(x, 2), ShapeError);
  EXPECT_THROW(group_norm(x, 0), ValueError);
  EXPECT_THROW(instance_norm(zeros({2, 3, 1})), ValueError);
}

}  // namespace
}  // namespace weft
