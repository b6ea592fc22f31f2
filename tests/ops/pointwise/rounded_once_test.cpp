// Sums of products in 16-bit floats, with added terms, against f64: they are rounded once, at the end.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weft/nn/quantize.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

std::vector<double> values_of(const Tensor& t) { return t.detach().to(f64).contiguous().to_vector<double>(); }

/// Within one unit in the last place of `dtype`, or of f32 relative to the sum `terms` of the terms' magnitudes.
void expect_rounded_once(const Tensor& actual, const Tensor& expected, const Tensor& terms, const std::string& what) {
  const std::vector<double> a = values_of(actual), b = values_of(expected), t = values_of(terms);
  ASSERT_EQ(a.size(), b.size()) << what;
  const int digits = actual.dtype() == bf16 ? 8 : 11;
  for (size_t i = 0; i < a.size(); ++i) {
    const double unit = std::max(std::ldexp(1.0, std::ilogb(b[i] == 0 ? 1e-30 : b[i]) - digits + 1), 0x1p-24);
    ASSERT_LE(std::fabs(a[i] - b[i]), unit + 0x1p-20 * t[i]) << what << ", element " << i << " of " << b[i];
  }
}

Tensor drawn(const Dims& shape, DType dtype) { return randn(shape).to(dtype); }

/// Near to -product, so that the sum cancels.
Tensor opposite(const Tensor& product) { return (-product).to(f32); }

class RoundedOnce : public ::testing::TestWithParam<std::tuple<DType, int64_t>> {
 protected:
  void SetUp() override { manual_seed(7); }
  DType dtype() const { return std::get<0>(GetParam()); }
  int64_t rows() const { return std::get<1>(GetParam()); }
};

TEST_P(RoundedOnce, Linear) {
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{48, 40}, {256, 192}, {513, 70}}) {
    const Tensor x = drawn({rows(), k}, dtype()), w = drawn({n, k}, dtype());
    const Tensor products = matmul(x.to(f64), w.to(f64).t());
    const Tensor terms = matmul(abs(x.to(f64)), abs(w.to(f64)).t()) * 2;
    const Tensor bias = opposite(products[{rows() / 2}]).to(dtype());
    const Tensor sum = products + bias.to(f64);
    const std::string what = std::to_string(rows()) + " rows of " + std::to_string(k) + " by " + std::to_string(n);
    expect_rounded_once(linear(x, w, bias), sum, terms, what);
    expect_rounded_once(linear(x.unsqueeze(0), w, bias), sum, terms, what + ", 3-d");
    expect_rounded_once(linear(x, w, bias, Activation::relu), relu(sum), terms, what + ", relu");
    expect_rounded_once(linear(x, w, bias, Activation::gelu), gelu(sum), terms, what + ", gelu");
    expect_rounded_once(linear(x, w, bias, Activation::silu), silu(sum), terms, what + ", silu");
    const Tensor leaf = w.clone().requires_grad_();
    expect_rounded_once(linear(x, leaf, bias, Activation::relu), relu(sum), terms, what + ", recorded relu");
    expect_rounded_once(addmm(bias, x, w.t()), sum, terms, what + ", addmm");
    const Tensor whole = opposite(products).to(dtype());
    expect_rounded_once(addmm(whole, x, w.t()), products + whole.to(f64), terms, what + ", addmm of a matrix");
    expect_rounded_once(addmm(whole, x, w.t(), 0.75, 0.7), products * 0.7 + whole.to(f64) * 0.75, terms,
                        what + ", scaled addmm");
    expect_rounded_once(baddbmm(whole.unsqueeze(0), x.unsqueeze(0), w.t().unsqueeze(0)),
                        (products + whole.to(f64)).unsqueeze(0), terms, what + ", baddbmm");
    expect_rounded_once(addbmm(whole, x.unsqueeze(0), w.t().unsqueeze(0)), products + whole.to(f64), terms,
                        what + ", addbmm");
    const Tensor one = linear(x, w[0], bias[0]), column = opposite(products.select(1, 0)).to(dtype());
    expect_rounded_once(one, sum.select(1, 0), terms.select(1, 0), what + ", one output");
    expect_rounded_once(addmv(column, x, w[0]), products.select(1, 0) + column.to(f64), terms.select(1, 0),
                        what + ", addmv");
  }
}

TEST_P(RoundedOnce, Addr) {
  const Tensor a = drawn({rows()}, dtype()), b = drawn({20}, dtype()), product = outer(a.to(f64), b.to(f64));
  const Tensor input = opposite(product).to(dtype());
  expect_rounded_once(addr(input, a, b), product + input.to(f64), abs(product) * 2, "addr");
}

TEST_P(RoundedOnce, Bilinear) {
  const Tensor x = drawn({rows(), 12}, dtype()), y = drawn({rows(), 9}, dtype()), w = drawn({5, 12, 9}, dtype());
  const Tensor products = bilinear(x.to(f64), y.to(f64), w.to(f64));
  const Tensor terms = bilinear(abs(x.to(f64)), abs(y.to(f64)), abs(w.to(f64))) * 2;
  const Tensor bias = opposite(products[{rows() / 2}]).to(dtype());
  expect_rounded_once(bilinear(x, y, w, bias), products + bias.to(f64), terms, "bilinear");
}

/// Of whole numbers that codes hold: sums are exact, and rounded at the end.
void expect_exact_but_for_the_end(DType dtype, int64_t rows, int64_t most, void (*change)(const nn::Module&)) {
  const Tensor x = randint(-8, 9, {rows, 256}).to(dtype), weight = randint(-most, most + 1, {40, 256}).to(f32);
  const NoGradGuard unrecorded;
  for (const int group : {0, 128}) weight.select(1, group).fill_(most);  // so that scales are 1
  const Tensor products = linear(x.to(f64), weight.to(f64));
  const Tensor bias = opposite(products[{rows / 2}]).to(dtype);
  nn::Sequential net(nn::Linear(256, 40));
  net.load_state_dict({{"0.weight", weight}, {"0.bias", bias.to(f32)}});
  net.to(dtype);
  change(net);
  EXPECT_EQ(values_of(net(x)), values_of((products + bias.to(f64)).to(f32).to(dtype)));
}

TEST_P(RoundedOnce, LinearLayersOfCodes) {
  // Up to 8 rows are codes themselves.
  if (rows() > 8) expect_exact_but_for_the_end(dtype(), rows(), 127, [](const nn::Module& net) { nn::quantize(net); });
  expect_exact_but_for_the_end(dtype(), rows(), 8, [](const nn::Module& net) { nn::convert_to_fp8(net); });
}

TEST_P(RoundedOnce, Convolutions) {
  const Tensor x = drawn({2, 6, rows(), 10}, dtype()), w = drawn({8, 6, 1, 3}, dtype());
  const Tensor wt = drawn({6, 8, 1, 3}, dtype()), none;
  const Tensor products = conv2d(x.to(f64), w.to(f64)), terms = conv2d(abs(x.to(f64)), abs(w.to(f64))) * 2;
  const Tensor bias = opposite(products.select(0, 0).select(1, 0).select(1, 4)).to(dtype());
  expect_rounded_once(conv2d(x, w, bias), products + bias.to(f64).view({-1, 1, 1}), terms, "conv2d");
  const Tensor turned = conv_transpose2d(x.to(f64), wt.to(f64));
  const Tensor turned_terms = conv_transpose2d(abs(x.to(f64)), abs(wt.to(f64))) * 2;
  const Tensor other = opposite(turned.select(0, 0).select(1, 0).select(1, 4)).to(dtype());
  expect_rounded_once(conv_transpose2d(x, wt, other), turned + other.to(f64).view({-1, 1, 1}), turned_terms,
                      "conv_transpose2d");
}

TEST_P(RoundedOnce, RecurrentGates) {
  nn::RNN layer(6, 5);
  layer.to(dtype());
  const Tensor x = drawn({1, rows(), 6}, dtype());
  nn::RNN wide(6, 5);
  wide.load_state_dict(layer.state_dict());
  wide.to(f64);
  const Tensor sum = wide(x.to(f64)).output;
  expect_rounded_once(layer(x).output, sum, full_like(sum, 8), "rnn");
}

TEST_P(RoundedOnce, SumOfResiduals) {
  const Tensor x = drawn({rows(), 32}, dtype()), bias = drawn({32}, dtype()), weight = ones({32}, {dtype()});
  const Tensor residual = opposite(x.to(f64)).to(dtype());
  const auto [y, sum] = fused_rms_norm_residual(x, residual, bias, weight, 1e-6);
  expect_rounded_once(sum, x.to(f64) + residual.to(f64) + bias.to(f64), full({rows(), 32}, 8, f64), "residual");
}

INSTANTIATE_TEST_SUITE_P(Rows, RoundedOnce,
                         ::testing::Combine(::testing::Values(bf16, f16), ::testing::Values(1, 3, 8, 9, 33, 200)));

}  // namespace
}  // namespace weft
