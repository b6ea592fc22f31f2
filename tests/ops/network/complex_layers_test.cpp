// Complex numbers and integers in layers, losses, joins and sums; tests/python/test_complex_everywhere.py has more.
#include <complex>
#include <vector>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

namespace weft {
namespace {

Tensor numbers(const Dims& shape) { return complex(randn(shape, f64), randn(shape, f64)); }

TEST(ComplexLayers, ConvolutionsAreThoseOfTheParts) {
  manual_seed(1);
  const Tensor x = numbers({2, 4, 7}), w = numbers({6, 2, 3}), b = numbers({6});
  const ConvolutionOptions o{.stride = 2, .padding = 1, .groups = 2};
  const auto part = [&](const Tensor& a, const Tensor& c) { return conv1d(a.contiguous(), c.contiguous(), {}, o); };
  const Tensor wanted =
      complex(part(real(x), real(w)) - part(imag(x), imag(w)), part(real(x), imag(w)) + part(imag(x), real(w))) +
      b.view({6, 1});
  EXPECT_TRUE(allclose(conv1d(x, w, b, o), wanted));
  EXPECT_TRUE(allclose(conv1d(x[0], w, b, o), Tensor(wanted[0])));
  EXPECT_THROW(conv1d(x, real(w).contiguous(), {}, o), DTypeError);
}

TEST(ComplexLayers, ConvolutionsOfIntegersAreExact) {
  const Tensor x = arange(1, 19).view({1, 2, 3, 3}), w = arange(-3, 5).view({2, 2, 2, 1});
  const Tensor y = conv2d(x, w);
  EXPECT_EQ(y.dtype(), i64);
  EXPECT_TRUE(equal(y, conv2d(x.to(f64), w.to(f64)).to(i64)));
  EXPECT_TRUE(equal(conv2d(x.to(i8), w.to(i8)), y.to(i8)));
  EXPECT_TRUE(equal(conv_transpose2d(x, w), conv_transpose2d(x.to(f64), w.to(f64)).to(i64)));
  EXPECT_TRUE(equal(avg_pool1d(tensor({-1, -2, -4, -8}).view({1, 1, 4}), 2), tensor({-1, -6}).view({1, 1, 2})));
}

TEST(ComplexLayers, LossesMeasureLengths) {
  const Tensor x = complex(tensor({3.0, 0.0}, f64), tensor({4.0, 1.0}, f64)).requires_grad_();
  const Tensor y = zeros({2}, c128);
  EXPECT_DOUBLE_EQ(mse_loss(x, y).item<double>(), 13);
  EXPECT_DOUBLE_EQ(l1_loss(x, y).item<double>(), 3);
  EXPECT_TRUE(allclose(grad({mse_loss(x, y, {.reduction = LossReduction::sum})}, {x})[0], 2 * x.detach()));
  EXPECT_TRUE(allclose(abs(normalize(x.detach(), {.dims = 0})).square().sum(), tensor(1.0, f64)));
}

TEST(ComplexLayers, JoinsWithRealNumbersHaveGradients) {
  const Tensor x = ones({2}, f32).requires_grad_(), y = numbers({2}).requires_grad_();
  for (const Tensor& joined : {cat({x, y}), stack({y, x})}) {
    const auto g = grad({real(joined).sum()}, {x, y});
    EXPECT_TRUE(equal(g[0], ones({2}, f32)));
    EXPECT_TRUE(equal(real(g[1]), ones({2}, f64)));
  }
}

TEST(ComplexLayers, DeviationsOfEqualNumbersHaveNoSlope) {
  const Tensor x = full({3}, 2, {c128}).requires_grad_();
  EXPECT_EQ(abs(grad({weft::std(x)}, {x})[0]).sum().item<double>(), 0);
}

TEST(ComplexLayers, SumsInADtypeWithoutImaginaryPartsAreRefused) {
  const Tensor x = numbers({3});
  for (const DType dtype : {i64, i32, DType::boolean, f32}) {
    EXPECT_THROW(sum(x, {}, false, dtype), DTypeError);
    EXPECT_THROW(prod(x, {}, false, dtype), DTypeError);
    EXPECT_THROW(mean(x, {}, false, dtype), DTypeError);
    EXPECT_THROW(cumsum(x, 0, false, false, dtype), DTypeError);
    EXPECT_THROW(cumprod(x, 0, dtype), DTypeError);
    EXPECT_THROW(nansum(x, {}, false, dtype), DTypeError);
  }
  const Tensor whole = tensor({1, 2, 3});
  for (const Tensor& y : {sum(whole, {}, false, c64), prod(whole, {}, false, c64)}) {
    EXPECT_EQ(y.dtype(), c64);
    EXPECT_EQ(real(y).item<float>(), 6);
  }
  EXPECT_EQ(real(mean(whole, {}, false, c128)).item<double>(), 2);
}

TEST(ComplexLayers, CovariancesConjugateTheirSecondRow) {
  const Tensor x = numbers({2, 5}), c = cov(x), centred = x - mean(x, {1}, true);
  EXPECT_TRUE(allclose(c, matmul(centred, conj(centred).t()) / 4));
  EXPECT_TRUE(allclose(corrcoef(x).diagonal(), ones({2}, c128)));
}

TEST(ComplexLayers, NumbersBesideListsOfIndices) {
  const Tensor x = tensor(5.0), two = tensor({0, 0});
  EXPECT_TRUE(equal(gather(x, 0, two), tensor({5.0, 5.0})));
  EXPECT_EQ(gather(tensor({5.0, 6.0}), 0, tensor(1)).item<float>(), 6);
  EXPECT_EQ(scatter_add(x, 0, two, tensor({1.0, 2.0})).item<float>(), 8);
  EXPECT_EQ(scatter(x, 0, tensor({0}), 3.0).item<float>(), 3);
  EXPECT_THROW(gather(x, 0, tensor({1})), IndexError);
}

TEST(ComplexLayers, NormsOfHalvesWithoutEpsilonUseThatOfFloats) {
  const Tensor x = tensor({0.01, 0.02}, f64);
  const Tensor wanted = x / sqrt(mean(square(x)) + 0x1p-23);
  for (const DType dtype : {f16, bf16}) {
    EXPECT_TRUE(allclose(rms_norm(x.to(dtype), {2}).to(f64), wanted, 0.01, 0));
  }
}

}  // namespace
}  // namespace weft
